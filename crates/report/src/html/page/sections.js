// The sections of a report, from its data.
const report = JSON.parse(document.getElementById('data').textContent);
const sides = report.sides;
sides.forEach((side, i) => { side.colour = SIDES[i % SIDES.length]; });
const original = sides.find(side => !side.replay), replays = sides.filter(side => side.replay);
const series = (points, of = sides) => of.map(side => ({ name: side.name, colour: side.colour, points: points(side) })).filter(s => s.points.length);
const longest = Math.max(1, ...sides.map(side => side.elapsed_ns));

document.getElementById('title').textContent = report.title;
document.getElementById('verdict').textContent = report.verdict.text;
document.getElementById('verdict').classList.toggle('bad', !report.verdict.good);
document.getElementById('footer').textContent = `Written by ${report.writer}. Response times are binned (eight bins to a doubling), courses are divided into at most 480 slices.`;

function summary() {
  const quantiles = side => {
    const bins = new Map();
    for (const call of side.calls) for (const [bound, n] of call.bins) bins.set(bound, (bins.get(bound) || 0) + n);
    const sorted = cumulative([...bins].sort((a, b) => a[0] - b[0]));
    return q => (sorted.find(p => p[1] >= q) || [0])[0];
  };
  const differ = name => new Set(replays.map(side => side.facts[name])).size > 1;
  const facts = ['file_system', 'order', 'pace', 'cache', 'io', 'memory_limit'].filter(name => sides.some(side => side.facts[name]) && (name === 'order' || differ(name)));
  const head = ['', ...facts.map(f => f.replace('_', ' ')), 'elapsed', 'compared', 'diverged', 'errors', 'moved', 'p50', 'p99', 'p99.9', 'in flight'];
  const row = side => {
    const q = quantiles(side);
    return [side.name + (side.replay ? '' : ' (recorded)'), ...facts.map(f => side.facts[f] || '–'),
      time(side.elapsed_ns) + (side.replay && original ? ` (×${(side.elapsed_ns / original.elapsed_ns).toFixed(2)})` : ''), count(side.compared),
      side.replay ? count(side.diverged) : '–', count(side.errors), size(side.moved_bytes), '≈' + time(q(.5)), '≈' + time(q(.99)), '≈' + time(q(.999)), side.in_flight.mean.toFixed(2)];
  };
  const key = side => facts.map(f => side.facts[f] || '').join(' ');
  const groups = Map.groupBy ? Map.groupBy(replays, key) : new Map(replays.map(side => [side.name, [side]]));
  const repeated = [...groups].filter(([, group]) => group.length > 1).map(([name, group]) => {
    const sorted = group.map(side => side.elapsed_ns).sort((a, b) => a - b), middle = sorted[Math.floor((sorted.length - 1) / 2)];
    return [name || 'the same settings', sorted.length, time(middle), time(sorted[0]), time(sorted.at(-1))];
  });
  section('summary', 'Summary', original && replays.length
    ? 'Compared are the storage calls that every replay issued: what was simulated or left out counts on neither side.' : 'Storage calls of the recording.',
    legend(sides.map(side => [side.name, side.colour])), table('summary', head, sides.map(row)),
    repeated.length > 0 && table('repeated', ['repeated runs', 'runs', 'median elapsed', 'fastest', 'slowest'], repeated));
}

function responseTimes() {
  const names = [...new Set(sides.flatMap(side => side.calls.map(call => call.call)))];
  const total = name => Math.max(...sides.map(side => side.calls.find(c => c.call === name)?.times.total_ns || 0));
  const shown = names.sort((a, b) => total(b) - total(a)).slice(0, 9);
  const find = (side, name) => side.calls.find(call => call.call === name);
  const plots = shown.map(name => {
    const of = sides.filter(side => find(side, name));
    const rows = () => [['trace', 'at_most_ns', 'share'], ...of.flatMap(side => cumulative(find(side, name).bins).map(p => [side.name, ...p]))];
    return figure(`${name} · ${of.map(side => count(find(side, name).times.count)).filter((n, i, all) => all.indexOf(n) === i).join(' / ')} calls`, 'response-' + name, rows, lines({ width: 350, height: 190,
      series: series(side => cumulative(find(side, name).bins.map(([bound, n]) => [Math.max(bound, 1), n])), of), step: true,
      x: { kind: 'log', label: 'response time', text: short, read: ns => '≤ ' + time(ns) },
      y: { from: 0, to: 1, label: 'share of calls', text: percent, read: percent } }));
  });
  // Beside each other no more columns than can be compared.
  const columns = sides.length > 2 ? [['p50', 'p50_ns'], ['p99', 'p99_ns'], ['total', 'total_ns']]
    : [['p50', 'p50_ns'], ['p90', 'p90_ns'], ['p99', 'p99_ns'], ['max', 'max_ns'], ['total', 'total_ns']];
  const head = ['call', ...sides.flatMap(side => [side.name + ' calls', ...columns.map(c => c[0])])];
  const rows = names.slice(0, 40).map(name => [name, ...sides.flatMap(side => {
    const t = find(side, name)?.times;
    return t ? [count(t.count), ...columns.map(c => time(t[c[1]]))] : Array(columns.length + 1).fill('');
  })]);
  section('response', 'Response times', 'The share of calls that took at most so long, by call; a line further left is faster. The calls that took the most time stand first.',
    make('div', { class: 'grid' }, plots), make('p'), table('response-table', head, rows));
}

function overTime() {
  const classes = sides.flatMap(side => side.course.heat.map(cell => cell[1]));
  const [from, to] = [classes.reduce((a, b) => Math.min(a, b), 63), classes.reduce((a, b) => Math.max(a, b), 0)];
  const maps = sides.map(side => figure('Latency over time · ' + side.name, 'latency-' + side.name,
    () => [['slice_begin_ns', 'at_least_ns', 'calls'], ...side.course.heat.map(([slice, row, n]) => [slice * side.course.slice_ns, 2 ** row, n])],
    heat(side.course, from, to, longest)));
  const courseOf = (title, name, values, text, ticks) => figure(title, name,
    () => [['trace', 'slice_begin_ns', name.replaceAll('-', '_')], ...sides.flatMap(side => values(side).map(p => [side.name, ...p]))],
    lines({ series: series(side => coarser(values(side), longest / 110)), step: true, x: { from: 0, to: longest, label: 'time', text: short, read: ns => 'at ' + time(ns) },
      y: { label: title, text, read: text, ticks } }));
  const perSecond = field => side => side.course[field].map((n, i) => [i * side.course.slice_ns, n * 1e9 / side.course.slice_ns]);
  section('time', 'Over time', 'Each from its first action. In the maps a darker cell holds more calls, on a logarithmic scale.',
    make('div', { class: 'grid wide' }, maps, courseOf('Calls per second', 'calls-per-second', perSecond('calls'), rate),
      courseOf('Bytes read per second', 'read-per-second', perSecond('read_bytes'), size, sizeTicks),
      courseOf('Bytes written per second', 'written-per-second', perSecond('written_bytes'), size, sizeTicks)));
}

function concurrency() {
  const course = side => side.in_flight.slices.map((n, i) => [i * side.in_flight.slice_ns, n]);
  const ecdf = side => {
    const sorted = [...side.in_flight.slices].sort((a, b) => a - b);
    return sorted.map((n, i) => [n, (i + 1) / sorted.length]);
  };
  const rows = points => () => [['trace', 'x', 'y'], ...sides.flatMap(side => points(side).map(p => [side.name, ...p]))];
  section('concurrency', 'Concurrency', 'Storage calls in flight: how much the storage system had to do at once. A replay that keeps fewer in flight asks less of it.',
    make('div', { class: 'grid wide' },
      figure('In flight over time', 'in-flight', rows(course), lines({ series: series(side => coarser(course(side), longest / 220)), step: true,
        x: { from: 0, to: longest, label: 'time', text: short, read: ns => 'at ' + time(ns) }, y: { label: 'in flight', text: level, read: n => n.toFixed(2) } })),
      figure('Share of time with at most so many in flight', 'in-flight-share', rows(ecdf), lines({ series: series(ecdf), step: true,
        x: { from: 0, label: 'in flight', text: level, read: n => '≤ ' + n.toFixed(2) }, y: { from: 0, to: 1, label: 'share of time', text: percent, read: percent } }))));
}

function pacing() {
  const paced = replays.filter(side => side.issue_error);
  const points = side => {
    const bins = new Map(side.issue_error.late);
    for (const [bound, n] of side.issue_error.early) bins.set(bound, (bins.get(bound) || 0) + n);
    return cumulative([...bins].sort((a, b) => a[0] - b[0]).map(([bound, n]) => [Math.max(bound, 1), n]));
  };
  const waits = replays.filter(side => side.times?.waits.length);
  const rules = [...new Set(waits.flatMap(side => side.times.waits.map(w => w.rule)))];
  const wait = (side, rule) => side.times.waits.find(w => w.rule === rule)?.blocked.total_ns || 0;
  if (!paced.length && !rules.length) return;
  section('replay', 'How the replay kept time', 'Issue error: by how much actions were issued later (or earlier) than they were due. Waits: how long threads were blocked for what an ordering rule puts before them.',
    make('div', { class: 'grid wide' },
      paced.length > 0 && figure('Issue error', 'issue-error', () => [['trace', 'at_most_ns', 'share'], ...paced.flatMap(side => points(side).map(p => [side.name, ...p]))],
        lines({ series: series(points, paced), step: true,
          x: { kind: 'log', label: 'issue error', text: short, read: ns => '≤ ' + time(ns) }, y: { from: 0, to: 1, label: 'share of actions', text: percent, read: percent } })),
      rules.length > 0 && figure('Time blocked, by ordering rule', 'waits', () => [['rule', ...waits.map(s => s.name + '_ns')], ...rules.map(rule => [rule, ...waits.map(s => wait(s, rule))])],
        bars({ names: rules, series: waits.map(side => ({ colour: side.colour, values: rules.map(rule => wait(side, rule)) })), text: time }))) );
}

function threads() {
  const kinds = [...report.categories.map((name, i) => ({ name, colour: KINDS[i] })), { name: 'waiting', colour: '#b7bdc9' }, { name: 'pace', colour: '#6d7585' }];
  const values = thread => [...thread.in_calls_ns, thread.waiting_ns, thread.pacing_ns];
  const sum = thread => values(thread).reduce((a, b) => a + b, 0);
  const greatest = Math.max(1, ...sides.flatMap(side => side.threads.map(sum)));
  const figures = sides.map(side => {
    const shown = [...side.threads].sort((a, b) => sum(b) - sum(a)).slice(0, 16);
    return figure('Time of threads · ' + side.name + (side.threads.length > 16 ? `, 16 of ${side.threads.length}` : ''), 'threads-' + side.name,
      () => [['thread', 'name', ...kinds.map(k => k.name.replace('/', '_') + '_ns')], ...side.threads.map(t => [t.thread, t.name, ...values(t)])],
      stacked({ greatest, names: shown.map(t => `T${t.thread} ${t.name}`), parts: kinds.map((kind, i) => ({ ...kind, values: shown.map(t => values(t)[i]) })), text: time }));
  });
  const categoryOf = report.calls.map(call => callKinds.get(call) ?? 7);
  const spans = () => [['trace', 'thread', 'call', 'begin_ns', 'duration_ns'], ...sides.flatMap(side => {
    const s = side.spans, begins = decode(s.begins, Float64Array), lengths = decode(s.lengths, Float32Array), calls = decode(s.calls, Uint16Array);
    return s.threads.flatMap((thread, i) => Array.from({ length: s.starts[i + 1] - s.starts[i] }, (_, k) =>
      [side.name, thread, report.calls[calls[s.starts[i] + k]], begins[s.starts[i] + k], lengths[s.starts[i] + k]]));
  })];
  const out = sides.filter(side => side.spans.left_out).map(side => `${side.name}: of those shorter than ${time(side.spans.long_ns)} ${count(side.spans.left_out)} are not drawn`);
  section('threads', 'Threads', 'What each thread did when. Wheel or + and − zoom, dragging or arrow keys pan, 0 shows all. ' + out.join('; '),
    legend(kinds.map(kind => [kind.name, kind.colour]), true),
    figure('Timelines', 'timeline', spans, timeline(sides, report.calls, KINDS, categoryOf.map(i => KINDS[i]))),
    make('p'), make('div', { class: 'grid', style: 'grid-template-columns:1fr' }, figures));
}

function places() {
  const lists = [['files', 'Hot files'], ['directories', 'Hot directories']].flatMap(([field, title]) => sides.slice(0, 2).map(side => {
    const rows = side[field];
    return rows.length && figure(`${title} · ${side.name}`, field + '-' + side.name, () => [['path', 'calls', 'bytes', 'time_ns'], ...rows.map(r => [r.path, r.calls, r.bytes, r.time_ns])],
      table(field + '-table-' + side.name, ['path', 'calls', 'bytes', 'time'], rows.slice(0, 12).map(r => [{ path: r.path }, count(r.calls), size(r.bytes), time(r.time_ns)])));
  }));
  section('files', 'Files', 'Where the time of storage calls went: files, and directories with what is directly in them.', make('div', { class: 'grid wide' }, lists.filter(Boolean)));
}

function sizes() {
  const plots = [['read_sizes', 'Sizes of reads'], ['write_sizes', 'Sizes of writes']].map(([field, title]) => {
    const from = [...new Set(sides.flatMap(side => side[field].map(c => c.from_bytes)))].sort((a, b) => a - b);
    const n = (side, bytes) => side[field].find(c => c.from_bytes === bytes)?.count || 0;
    return from.length && figure(title, field.replace('_', '-'), () => [['from_bytes', ...sides.map(s => s.name)], ...from.map(b => [b, ...sides.map(s => n(s, b))])],
      bars({ names: from.map(b => b ? 'from ' + size(b).replace(/\.0+ /, ' ') : '0 B'), series: sides.map(side => ({ colour: side.colour, values: from.map(b => n(side, b)) })), text: count }));
  });
  section('sizes', 'Sizes', 'Bytes that calls asked for, in classes of powers of two.', make('div', { class: 'grid wide' }, plots.filter(Boolean)));
}

// Category of each call by its place in the report's list.
const callKinds = new Map(report.call_kinds.map((kind, i) => [report.calls[i], kind]));
summary(); responseTimes(); overTime(); concurrency(); pacing(); threads(); places(); sizes();
redraw();
addEventListener('resize', redraw);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
document.documentElement.dataset.ready = 'true';
