# What a build needs, for the scripts that build: sourced from the root of the project.
# Sets: build (folder), jobs, python. Defines: install_packages, find_python, configure, build.

build_packages=(cmake ninja-build g++ llvm-22-dev lld-22 libisl-dev libtbb-dev libcli11-dev nlohmann-json3-dev
  libfmt-dev libpng-dev zlib1g-dev libzstd-dev libxxhash-dev libdlpack-dev)
test_packages=(llvm-22-tools libgtest-dev libgmock-dev libmpfr-dev libgmp-dev python3 python3-numpy)

build=${CORRLOOM_BUILD:-build}
jobs=$(nproc 2>/dev/null || echo 2)
python=python3

# install_packages NAME...: installs those that are missing when it may, says what to install when it may not.
install_packages() {
  command -v dpkg-query >/dev/null || return 0 # another system: the configuration says what it does not find
  local missing=() package
  for package in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  if [ "$(id -u)" -ne 0 ]; then
    echo "missing packages; install them with:" >&2
    echo "  sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
    return 1
  fi
  echo "installing: ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q >/dev/null || return 1
  apt-get install -y -q --no-install-recommends "${missing[@]}" >/dev/null
}

# find_python: the first interpreter with NumPy; failing that, one in a virtual environment of the build folder.
find_python() {
  local candidate
  for candidate in python3 /usr/bin/python3 "$build/venv/bin/python"; do
    if "$candidate" -c 'import numpy' 2>/dev/null; then
      python=$(command -v "$candidate")
      return 0
    fi
  done
  python3 -m venv "$build/venv" && "$build/venv/bin/pip" install --quiet numpy && python=$PWD/$build/venv/bin/python
}

# configure ARGUMENT...: the build folder, Release. ccache is used where it is, and never needed.
configure() {
  local launcher=()
  command -v ccache >/dev/null && launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  mkdir -p "$build"
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release "${launcher[@]}" \
    -DPython3_EXECUTABLE="$(command -v "$python")" "$@" >"$build/configure.log" 2>&1 && return 0
  cat "$build/configure.log" >&2
  return 1
}

# build TARGET...: with all processors; everything without a target.
build() {
  cmake --build "$build" --parallel "$jobs" ${1:+--target "$@"}
}
