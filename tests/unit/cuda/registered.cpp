#include "tests/unit/cuda/registered.h"

#include "tests/unit/runtime/test_programs.h"

namespace corrloom::runtime::test {

FakeDriver& registered_driver() {
  // Tensors of tests may outlive everything: the driver stays until the process ends, as a real one does.
  static FakeDriver& driver = [&]() -> FakeDriver& {
    use_test_loader();
    static FakeDriver instance;
    for (const BackendRef& backend : FakeDriver::devices().backends) register_backend(backend);
    return instance;
  }();
  return driver;
}

}  // namespace corrloom::runtime::test
