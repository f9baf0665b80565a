#!/usr/bin/env bash
# A few altered files; `make check-all` has more, under sanitizers.
exec bash "$(dirname "$0")/mutated.sh" 1 "${MUSTER_MUTATIONS:-8}"
