#!/bin/bash
mkdir -p /logs/verifier
if [ "$(cat /app/server.new)" = $'name=main\nport=8080' ] && [ "$(cat /app/server.conf)" = $'name=main\nport=80' ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
