#pragma once

#include "runtime/backend.h"

namespace corrloom::runtime::test {

/// A GPU made of host memory whose work waits until somebody synchronises: what is not ordered by streams and events is
/// seen to be wrong. Runs the programs of `test_programs.h`.
BackendRef make_fake_gpu(int index);

/// Registers cuda:0 and cuda:1 as fake ones, once.
void use_fake_gpus();

}  // namespace corrloom::runtime::test
