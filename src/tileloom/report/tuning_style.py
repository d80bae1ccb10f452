"""What the page of a tuning run looks like, light and dark."""

STYLE = """
:root { color-scheme: light dark; --good: #0a7d4f; --before: #b45309; --bad: #c2333f;
        --dot: #3b6fd4; --line: #8884; --soft: #8881; }
@media (prefers-color-scheme: dark) {
  :root { --good: #3ecf8e; --before: #f0a04b; --bad: #ff6b76; --dot: #7ea6ff; } }
* { box-sizing: border-box; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 78rem;
       padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .5rem; } h4 { font-size: .9rem; margin: .9rem 0 .2rem; }
p { margin: .3rem 0; } .dim { opacity: .68; } .note { font-size: 13px; opacity: .75; }
.tiles { display: flex; flex-wrap: wrap; gap: .8rem; margin: 1.2rem 0; }
.tile { border: 1px solid var(--line); border-radius: 8px; padding: .6rem .9rem; flex: 1 1 11rem; }
.tile b { display: block; font-size: 1.35rem; font-variant-numeric: tabular-nums; }
.tile span { font-size: 13px; opacity: .7; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; width: 100%; }
th { text-align: right; font-weight: 600; border-bottom: 1px solid var(--line); }
td, th { padding: .28rem .6rem; white-space: nowrap; }
td { text-align: right; font-variant-numeric: tabular-nums; border-bottom: 1px solid var(--soft); }
td:first-child, th:first-child { text-align: left; padding-left: 0; }
td.name { max-width: 24rem; overflow: hidden; text-overflow: ellipsis; }
td.words, th.words { text-align: left; white-space: normal; overflow-wrap: anywhere; }
.bar { display: inline-block; height: .6em; background: var(--dot); border-radius: 2px; }
.bars { display: grid; grid-template-columns: minmax(0, 13rem) minmax(0, 1fr) auto;
        gap: .35rem .7rem; align-items: center; font-size: 12px; line-height: 1.25; }
.bars .name { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.bars .n { text-align: right; font-variant-numeric: tabular-nums; }
.bars i { display: block; height: .7em; border-radius: 2px; margin: 2px 0; }
.before { background: var(--before); } .after { background: var(--good); }
.before-text { color: var(--before); font-weight: 600; }
.faster { color: var(--good); font-weight: 600; }
a { color: inherit; text-decoration-color: var(--line); }
code, pre { font-family: ui-monospace, monospace; font-size: 12px; }
details.kernel { border: 1px solid var(--line); border-radius: 8px; margin: .7rem 0;
                 padding: .5rem .9rem; }
summary { cursor: pointer; overflow-wrap: anywhere; }
.pair { display: grid; gap: 1.2rem; grid-template-columns: repeat(2, minmax(0, 1fr)); }
@media (max-width: 56rem) { .pair { grid-template-columns: minmax(0, 1fr); } }
pre { overflow: auto; max-height: 34rem; padding: .6rem; margin: .2rem 0; background: var(--soft);
      border-radius: 4px; line-height: 1.4; }
"""
