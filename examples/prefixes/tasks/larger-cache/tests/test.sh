#!/bin/bash
mkdir -p /logs/verifier
if [ "$(cat /app/cache.new)" = $'name=main\nsize=20' ] && [ "$(cat /app/cache.conf)" = $'name=main\nsize=10' ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
