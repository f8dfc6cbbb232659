"""Words that tasks are made of."""

from __future__ import annotations

THINGS = (
    "anchor apron barrel basket bellows bench bolt bottle brush bucket button candle carpet cart chain chisel clamp clock "
    "compass copper cord crate cup dial drum engine fan feather fence flask funnel gasket gauge glove hammer handle hinge "
    "hook hose jar kettle key ladder lamp lantern lever lock magnet mallet mirror nail needle nozzle oar pane panel pedal "
    "pencil pipe plank plate pulley pump rail rivet rope ruler saddle saw scale screw shelf shovel sieve spindle spool "
    "spring stool strap tile timer tongs tray trowel valve vase vise washer wheel whistle wrench"
).split()
TOWNS = (
    "aldmoor ashby bexhall birken calder corran dunmere eastry elvet fenwick garth halden ingle kelso lunden marsh "
    "norby oakham penrith quarn redmire selby tarn ulver varden welby yarrow"
).split()
PEOPLE = (
    "ada ben carla dora edith felix greta hugo ines jonas karin leo mira nils olga paul quinn rosa sven tilda uwe vera "
    "wanda xenia yuri zoe"
).split()
COLOURS = "amber black blue brown coral cyan green grey ivory lilac ochre orange pink plum red teal white yellow".split()
SERVICES = "beacon courier depot ferry gateway granary harbour ledger mill orchard pilot quarry relay semaphore tower".split()
