#!/bin/bash
mkdir -p /logs/verifier
if [ "$(cat /app/lease.new)" = $'name=main\ndays=30' ] && [ "$(cat /app/lease.conf)" = $'name=main\ndays=7' ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
