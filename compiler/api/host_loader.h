#pragma once

namespace corrloom::api {

/// Tells the runtime how host objects become callable. Called before anything is loaded; calling it again changes
/// nothing.
void install_host_loader();

}  // namespace corrloom::api
