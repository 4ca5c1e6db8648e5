#pragma once

#include <string>

#include "runtime/sim/machine.h"

namespace corrloom::sim::driver {

class Device;

/// Estimates, for what they are worth see corrloom_sim.h: the least seconds the largest chip of the architecture needs
/// to move the global sectors at full bandwidth, and to issue the instructions.
double memory_seconds(const Counters& counters, const DeviceLimits& limits);
double issue_seconds(const Counters& counters, const DeviceLimits& limits);

/// Launches, totals of each kernel and findings of a device as a JSON object.
std::string json_of(const Device& device);

}  // namespace corrloom::sim::driver
