#!/bin/sh
# Unpacks a Consul agent into the folder of the argument: the package of Debian 11, which later ones have dropped.
# It comes from the mirror that this machine's own packages come from, and nothing is installed.
set -eu
folder=$1
test -x "$folder/usr/bin/consul" && exit 0
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
mirror=$(apt-get indextargets --no-release-info --format '$(REPO_URI)' | grep -v security | head -n 1)
if test -z "$mirror" || ! test -r "$keyring"; then
  echo "no Consul: this is no Debian with a mirror" >&2
  exit 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
echo "deb [signed-by=$keyring] $mirror bullseye main" > "$work/sources.list"
apt() {
  apt-get -qq -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$work/lists" \
    -o Dir::Cache="$work/cache" -o APT::Sandbox::User="$(id -un)" -o Acquire::Languages=none "$@"
}
apt update
cd "$work"
apt download consul
mkdir -p "$folder"
dpkg -x consul_*.deb "$folder"
"$folder/usr/bin/consul" version
