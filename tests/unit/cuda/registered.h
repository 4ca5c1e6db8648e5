#pragma once

#include "tests/unit/runtime/fake_driver.h"

namespace corrloom::runtime::test {

/// The process's driver: its two devices are cuda:0 and cuda:1 of this process from the first call on.
FakeDriver& registered_driver();

}  // namespace corrloom::runtime::test
