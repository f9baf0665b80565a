#!/usr/bin/env bash
# A short set of the random faults; `make check-all` has more of them.
exec bash "$(dirname "$0")/faults.sh" "${MUSTER_FAULTS_FIRST:-1}" "${MUSTER_FAULTS:-15}"
