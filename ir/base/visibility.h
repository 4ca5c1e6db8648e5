#pragma once

/// Marks what `libcorrloom.so` exports; everything else is hidden.
#define CORRLOOM_API __attribute__((visibility("default")))
