"""Words that tasks are made of."""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


THINGS = _words("""
    anchor apron barrel basket bellows bench bolt bottle brush bucket button candle carpet cart chain chisel
    clamp clock compass copper cord crate cup dial drum engine fan feather fence flask funnel gasket gauge glove
    hammer handle hinge hook hose jar kettle key ladder lamp lantern lever lock magnet mallet mirror nail needle
    nozzle oar pane panel pedal pencil pipe plank plate pulley pump rail rivet rope ruler saddle saw scale screw
    shelf shovel sieve spindle spool spring stool strap tile timer tongs tray trowel valve vase vise washer
    wheel whistle wrench
""")

TOWNS = _words("""
    aldmoor ashby bexhall birken calder corran dunmere eastry elvet fenwick garth halden ingle kelso lunden
    marsh norby oakham penrith quarn redmire selby tarn ulver varden welby yarrow
""")

PEOPLE = _words("""
    ada ben carla dora edith felix greta hugo ines jonas karin leo mira nils olga paul quinn rosa sven tilda uwe
    vera wanda xenia yuri zoe
""")

COLOURS = _words("""
    amber black blue brown coral cyan green grey ivory lilac ochre orange pink plum red teal white yellow
""")

SERVICES = _words("""
    beacon courier depot ferry gateway granary harbour ledger mill orchard pilot quarry relay semaphore tower
""")
