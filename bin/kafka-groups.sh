#!/bin/sh
exec "$(dirname -- "$(readlink -f -- "$0")")/penstock" kafka-groups "$@"
