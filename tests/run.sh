#!/usr/bin/env bash
# Installs what is missing, builds everything into build/, runs every test, and ends with the line `N passed, N failed`.
#
#   tests/run.sh                 everything
#   tests/run.sh -L golden       further arguments go to ctest: one label, one test, ...
#
# CORRLOOM_BUILD names another build folder.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source .ci/prepare.sh

give_up() { # MESSAGE: what stopped the run counts as one failure
  echo "$1" >&2
  echo "0 passed, 1 failed"
  exit 1
}

install_packages "${build_packages[@]}" "${test_packages[@]}" || give_up "tests/run.sh: packages are missing"
find_python || give_up "tests/run.sh: no Python with NumPy"
configure -DCORRLOOM_TESTS=ON || give_up "tests/run.sh: the build cannot be configured"
build || give_up "tests/run.sh: the build failed"

# The log holds the output of every test; the last line of this script is counted from it.
log=$build/Testing/Temporary/LastTest.log
rm -f "$log"
ctest --test-dir "$build" --output-on-failure --timeout 600 -j "$jobs" "$@"
ctest_status=$?
"$python" tests/count_results.py "$log" "$ctest_status"
