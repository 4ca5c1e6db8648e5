#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

namespace corrloom::sim::driver {

/// Objects behind the opaque handles of one kind. A handle is a number that is never used twice, so a stale or invented
/// handle is recognised and never followed. `Handle` is the pointer type that clients see.
template <class T, class Handle>
class HandleTable {
 public:
  /// `kind` (1..127) makes handles of different tables different.
  explicit HandleTable(unsigned kind) : next_((uintptr_t(kind) << 40) + 16) {}

  /// Makes a handle that names nothing yet.
  Handle reserve() {
    const std::unique_lock lock(mutex_);
    const uintptr_t number = next_;
    next_ += 16;
    return reinterpret_cast<Handle>(number);
  }
  /// Lets `handle` name `object`.
  void set(Handle handle, std::shared_ptr<T> object) {
    const std::unique_lock lock(mutex_);
    objects_[reinterpret_cast<uintptr_t>(handle)] = std::move(object);
  }
  Handle insert(std::shared_ptr<T> object) {
    const Handle handle = reserve();
    set(handle, std::move(object));
    return handle;
  }
  /// The object, or nullptr when the handle names none.
  std::shared_ptr<T> find(Handle handle) const {
    const std::shared_lock lock(mutex_);
    const auto it = objects_.find(reinterpret_cast<uintptr_t>(handle));
    return it == objects_.end() ? nullptr : it->second;
  }
  /// Takes the object out; nullptr when the handle names none.
  std::shared_ptr<T> remove(Handle handle) {
    const std::unique_lock lock(mutex_);
    const auto it = objects_.find(reinterpret_cast<uintptr_t>(handle));
    if (it == objects_.end()) return nullptr;
    std::shared_ptr<T> object = std::move(it->second);
    objects_.erase(it);
    return object;
  }
  /// All handles with their objects, in no order.
  std::vector<std::pair<Handle, std::shared_ptr<T>>> entries() const {
    const std::shared_lock lock(mutex_);
    std::vector<std::pair<Handle, std::shared_ptr<T>>> all;
    for (const auto& [number, object] : objects_) all.emplace_back(reinterpret_cast<Handle>(number), object);
    return all;
  }
  /// All objects, in no order.
  std::vector<std::shared_ptr<T>> find_all() const {
    const std::shared_lock lock(mutex_);
    std::vector<std::shared_ptr<T>> all;
    for (const auto& [number, object] : objects_) all.push_back(object);
    return all;
  }
  /// Takes out all objects for which `which(*object)` holds.
  template <class Predicate>
  std::vector<std::shared_ptr<T>> remove_if(Predicate which) {
    std::vector<std::shared_ptr<T>> removed;
    const std::unique_lock lock(mutex_);
    for (auto it = objects_.begin(); it != objects_.end();) {
      if (which(*it->second)) {
        removed.push_back(std::move(it->second));
        it = objects_.erase(it);
      } else {
        ++it;
      }
    }
    return removed;
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<uintptr_t, std::shared_ptr<T>> objects_;
  uintptr_t next_;
};

}  // namespace corrloom::sim::driver
