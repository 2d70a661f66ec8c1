# SPDX-License-Identifier: BSD-3-Clause
# Shared by contrib/try and contrib/check: progress, packages, one out-of-tree build. Sourced by bash.

export DEBIAN_FRONTEND=noninteractive

# Packages for a build. `command=package`: install the package only if the command is missing.
build_packages=(
    g++=g++ make=make autoreconf=autoconf automake=automake pkg-config=pkg-config
    libevent-dev libibverbs-dev librdmacm-dev libmemcached-dev libhashkit-dev libjemalloc-dev
    libc-ares-dev libcurl4-openssl-dev libedit-dev libseccomp-dev libtomlplusplus-dev liburing-dev libssl-dev libsasl2-dev
    libxxhash-dev nlohmann-json3-dev
)

say() { printf '%s\n' "$*"; }
die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# Number of parallel compilers: at most one per CPU and one per gigabyte of memory.
job_count() {
    local cpus memory
    cpus=$(nproc 2>/dev/null || echo 2)
    memory=$(awk '/^MemAvailable:/ {print int($2 / 1048576)}' /proc/meminfo 2>/dev/null || echo 2)
    [ "${memory:-2}" -ge 1 ] || memory=1
    [ "$cpus" -le "$memory" ] || cpus=$memory
    echo "$cpus"
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif [ -t 0 ]; then
        sudo "$@"
    else
        sudo -n "$@"
    fi
}

package_is_installed() {
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# missing_packages <command=package | package>...: the missing packages, one per line.
missing_packages() {
    local want
    for want in "$@"; do
        case $want in
            *=*) command -v "${want%%=*}" >/dev/null 2>&1 || printf '%s\n' "${want#*=}" ;;
            *) package_is_installed "$want" || printf '%s\n' "$want" ;;
        esac
    done
}

# install_missing <command=package | package>...: installs missing packages, and no others, by apt-get.
install_missing() {
    if ! command -v apt-get >/dev/null 2>&1; then
        say "  no apt-get: using the installed packages (configure names missing ones)"
        return 0
    fi
    local missing
    mapfile -t missing < <(missing_packages "$@")
    if [ "${#missing[@]}" -eq 0 ]; then
        say "  all packages are installed"
        return 0
    fi
    say "  installing: ${missing[*]}"
    if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null 2>&1; then
        die "these packages are missing and there is no sudo; as root, run
    apt-get install --no-install-recommends ${missing[*]}"
    fi
    keep_services_quiet "${missing[@]}"
    local apt=(apt-get -q -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
    as_root "${apt[@]}" update || say "  apt-get update failed: using the existing package lists"
    local package unknown=()
    for package in "${missing[@]}"; do
        case $(LC_ALL=C apt-cache policy "$package") in
            '' | *'Candidate: (none)'*) unknown+=("$package") ;;
        esac
    done
    [ "${#unknown[@]}" -eq 0 ] || die "this system's apt knows no package named ${unknown[*]}.
    Debian 12 and Ubuntu 24.04, and what came after them, have all that is needed."
    as_root env DEBIAN_FRONTEND=noninteractive "${apt[@]}" install -y --no-install-recommends "${missing[@]}" ||
        die "apt-get could not install: ${missing[*]}"
    local service
    for service in "${masked[@]}"; do
        as_root systemctl unmask "$service.service"
        as_root systemctl disable "$service.service"
    done
}

# Debian starts memcached (on the port of contrib/try) and Prometheus at installation. Only their programs are needed.
masked=()
keep_services_quiet() {
    local service
    [ -d /run/systemd/system ] || return 0
    for service in memcached prometheus; do
        case " $* " in
            *" $service "*) as_root systemctl mask "$service.service" && masked+=("$service") ;;
        esac
    done
}

# The compiler, run through ccache if it is installed.
compiler() {
    if command -v ccache >/dev/null 2>&1; then echo "ccache $1"; else echo "$1"; fi
}

# prepare_source: makes ./configure if it is missing (make rebuilds an outdated one).
# Run it from the top of the source tree.
prepare_source() {
    [ ! -e config.status ] || die "this source tree is itself configured; run \`make distclean\` in $PWD first"
    if [ ! -e configure ] || [ ! -e Makefile.in ] || [ ! -e build-aux/tap-driver.sh ]; then
        autoreconf -i
    fi
}

# configure_in <folder> <CXX> <configure flags>...: configures once per set of flags.
configure_in() {
    local folder=$1 cxx=$2 top=$PWD
    shift 2
    mkdir -p "$folder"
    local wanted="$cxx $* $top"
    if [ ! -e "$folder/Makefile" ] || [ "$(cat "$folder/.configured" 2>/dev/null)" != "$wanted" ]; then
        (cd "$folder" && "$top/configure" CXX="$cxx" "$@") || return 1
        printf '%s\n' "$wanted" >"$folder/.configured"
    fi
}
