#!/usr/bin/env bash
# On a fresh Debian 12 with root: installs what the build needs, builds into build/, and runs the main job.
# Without root it says what to install.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source .ci/prepare.sh

install_packages "${build_packages[@]}"
configure -DCORRLOOM_TESTS=OFF
echo "building into $build/ (the first time takes some minutes)"
build bin/corrloom bin/example_quickstart >"$build/build.log" 2>&1 || { tail -n 40 "$build/build.log" >&2; exit 1; }
corrloom=$build/bin/corrloom

show() { # COMMAND...: prints it, then runs it
  printf '\n$ %s\n' "${*/#$build\/bin\//}"
  "$@"
}

echo
echo "The textbook's correlation, from the command line:"
show "$corrloom" run examples/conv.loom:corr2d 'X=arange[3,3]' 'K=arange[2,2]'

echo
echo "Both ways to write a 1x1 convolution, at the size of a picture:"
picture=('X=randn[3,1920,1080]@1' 'K=randn[2,3,1,1]@2' --repeat 100)
show "$corrloom" bench examples/conv.loom:corr2d_multi_in_out "${picture[@]}"
show "$corrloom" bench examples/conv.loom:corr2d_multi_in_out_1x1 "${picture[@]}"

echo
echo "The code for a GPU (its first lines), on a machine that needs none:"
echo '$ corrloom emit examples/conv.loom:corr2d X=f32[3,3] K=f32[2,2] --stage ptx --target sm_90'
"$corrloom" emit examples/conv.loom:corr2d 'X=f32[3,3]' 'K=f32[2,2]' --stage ptx --target sm_90 >"$build/corr2d.ptx"
sed -n '1,24p' "$build/corr2d.ptx"

echo
echo "The same from C++ (examples/quickstart/quickstart.cpp):"
show "$build/bin/example_quickstart" examples/conv.loom 100
