# Sourced by what makes a fresh Debian.
#
#   debian_mirror     prints the address of the Debian mirror that this machine uses itself
# shellcheck shell=bash

debian_mirror() {
  local found
  # shellcheck disable=SC2016  # the $(...) are apt's
  found=$(apt-get indextargets --format '$(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
    awk '$2 ~ /^(bookworm|stable)$/ && $3 == "main" { print $1; exit }')
  echo "${found:-http://deb.debian.org/debian}"
}
