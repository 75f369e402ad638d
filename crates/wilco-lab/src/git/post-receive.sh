#!/bin/sh
# Written by wilco-lab: this push is over.
rm -f "../push.$PPID"
