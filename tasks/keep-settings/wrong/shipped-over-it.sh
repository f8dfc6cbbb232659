#!/bin/bash
# Everything of version 4, and nothing of the site.
cat /app/relay.conf.new > /app/relay.conf
