#include "compiler/api/host_loader.h"

#include <memory>
#include <string>

#include "compiler/codegen/loader.h"
#include "runtime/host/host_backend.h"

namespace corrloom::api {
namespace {

/// An object that the code generator's loader linked, as the runtime asks for it.
class LinkedCode final : public runtime::HostCode {
 public:
  explicit LinkedCode(const std::string& object) : object_(object) {}
  void* find(const std::string& symbol) const override { return object_.find(symbol); }

 private:
  codegen::LoadedObject object_;
};

}  // namespace

void install_host_loader() {
  runtime::set_host_loader([](const std::string& object) -> std::unique_ptr<runtime::HostCode> {
    return std::make_unique<LinkedCode>(object);
  });
}

}  // namespace corrloom::api
