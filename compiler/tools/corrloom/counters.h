#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "runtime/device.h"

namespace corrloom::tools {

/// What a simulated device counts while `run` runs, one object a launch in order, as `corrloom_sim_json` gives them
/// (runtime/sim/driver/corrloom_sim.h). Nothing for a device that is not simulated.
std::optional<nlohmann::json> count_launches(Device device, const std::function<void()>& run);

/// One line a launch: instructions, active lanes, memory, conflicts, occupancy, and what the estimates say.
std::string counters_table(const nlohmann::json& launches);

}  // namespace corrloom::tools
