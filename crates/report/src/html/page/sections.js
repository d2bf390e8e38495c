// The sections of a report, from its data.
const report = JSON.parse(document.getElementById('data').textContent);
const sides = report.sides;
sides.forEach((side, i) => { side.colour = SIDES[i % SIDES.length]; });
// Replications of each other share a colour.
const replicated = report.beside?.groups.some(group => group.members.length > 1);
(report.beside?.groups || []).forEach((group, i) => {
  group.colour = replicated ? SIDES[(i + 1) % SIDES.length] : sides[group.members[0]].colour;
  for (const member of group.members) sides[member].colour = group.colour;
});
// What has a plot or columns of its own: of replications the first stands for all.
const few = replicated ? sides.filter((side, i) => !side.replay || report.beside.groups.some(group => group.members[0] === i)) : sides;
const fewer = few.length < sides.length ? ' Of replications the first is shown.' : '';
const key = () => sides.length > 1 && legend(replicated ? [...sides.filter(side => !side.replay).map(side => [side.name, side.colour]), ...report.beside.groups.map(group => [group.name, group.colour])]
  : sides.map(side => [side.name, side.colour]));
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
  const facts = ['filesystem', 'device', 'order', 'pace', 'cache', 'io', 'memory_limit'].filter(name => sides.some(side => side.facts[name]) && (name === 'order' || differ(name)));
  const head = ['', ...facts.map(f => f.replace('_', ' ').replace('filesystem', 'file system')), 'elapsed', 'compared', 'diverged', 'errors', 'moved', 'p50', 'p99', 'p99.9', 'in flight'];
  const row = side => {
    const q = quantiles(side);
    return [side.name + (side.ended_early ? ` (${side.ended_early})` : side.replay ? '' : ' (recorded)'), ...facts.map(f => side.facts[f] || '–'),
      time(side.reached_ns) + (side.replay && original ? ` (×${(side.reached_ns / original.reached_ns).toFixed(2)})` : ''), count(side.compared),
      side.replay ? count(side.diverged) : '–', count(side.errors), size(side.moved_bytes), '≈' + time(q(.5)), '≈' + time(q(.99)), '≈' + time(q(.999)), side.in_flight.mean.toFixed(2)];
  };
  section('summary', 'Summary', original && replays.length
    ? 'Compared are the storage calls that every replay issued: what was simulated or left out counts on neither side.' : 'Storage calls of the recording.',
    key(), table('summary', head, sides.map(row)));
}

// What diverged and what was lost, if anything was.
function losses() {
  const first = seq => seq === null ? '' : 'action ' + count(seq);
  const diverged = replays.flatMap(side => [...side.divergences.rows.map(row => [side.name, row.call, { path: row.file }, row.difference, count(row.count), first(row.first)]),
    ...(side.divergences.others ? [[side.name, '', '', 'in other ways', count(side.divergences.others), '']] : [])]);
  const lost = sides.flatMap(side => side.lost.map(entry => [side.name, entry.word, entry.cause, count(entry.count), entry.bytes ? size(entry.bytes) : '', first(entry.first)]));
  const listed = (title, name, head, rows) => rows.length > 0 && figure(title, name, () => [head, ...rows.map(row => row.map(cell => cell.path ?? cell))], table(name + '-table', head, rows));
  section('losses', 'Divergences and losses', 'Actions that went differently than recorded, equal ones together, and what traces lost or replays could not do (the loss ledger; reprise verify has all).',
    diverged.length + lost.length > 0 && make('div', { class: 'grid', style: 'grid-template-columns:1fr' },
      [listed('What diverged', 'diverged', ['trace', 'call', 'file', 'how', 'actions', 'first'], diverged),
        listed('Loss ledger', 'ledger', ['trace', 'word', 'cause', 'count', 'bytes', 'first'], lost)].filter(Boolean)));
}

function responseTimes() {
  const names = [...new Set(sides.flatMap(side => side.calls.map(call => call.call)))];
  const total = name => Math.max(...sides.map(side => side.calls.find(c => c.call === name)?.times.total_ns || 0));
  const shown = names.sort((a, b) => total(b) - total(a)).slice(0, 9);
  const find = (side, name) => side.calls.find(call => call.call === name);
  const plots = shown.map(name => {
    const of = sides.filter(side => find(side, name));
    const rows = () => [['trace', 'at_most_ns', 'share'], ...of.flatMap(side => cumulative(find(side, name).bins).map(p => [side.name, ...p]))];
    return figure(`${name} · ${of.map(side => count(find(side, name).times.count)).filter((n, i, all) => all.indexOf(n) === i).join(' / ')} ${find(of[0], name).times.count === 1 ? 'call' : 'calls'}`, 'response-' + name, rows, lines({ width: 350, height: 190,
      series: series(side => cumulative(find(side, name).bins.map(([bound, n]) => [Math.max(bound, 1), n])), of), step: true,
      x: { kind: 'log', label: 'response time, logarithmic', text: short, read: ns => '≤ ' + time(ns) },
      y: { from: 0, to: 1, label: 'share of calls', text: percent, read: percent } }));
  });
  // Beside each other no more columns than can be compared.
  const columns = few.length > 2 ? [['p50', 'p50_ns'], ['p99', 'p99_ns'], ['total', 'total_ns']]
    : [['p50', 'p50_ns'], ['p90', 'p90_ns'], ['p99', 'p99_ns'], ['max', 'max_ns'], ['total', 'total_ns']];
  const head = ['call', ...few.flatMap(side => [side.name + ' calls', ...columns.map(c => c[0])])];
  const rows = names.slice(0, 40).map(name => [name, ...few.flatMap(side => {
    const t = find(side, name)?.times;
    return t ? [count(t.count), ...columns.map(c => time(t[c[1]]))] : Array(columns.length + 1).fill('');
  })]);
  const trusted = few.filter(side => side.replay).flatMap(side => side.calls.filter(call => call.validated).slice(0, 6).map(call => [side, call, call.validated]));
  section('response', 'Response times', 'The share of calls that took at most so long, by call; a line further left is faster. The calls that took the most time stand first.' + (fewer && ' In the table the first of replications stands for all.'),
    key(), make('div', { class: 'grid' }, plots), make('p'), table('response-table', head, rows), make('p'),
    trusted.length > 0 ? table('trust', ['how far means can be trusted', 'call', 'mean', 'u_c', 'as validated by'], trusted.map(([side, call, known]) => [side.name, call.call, time(call.times.mean_ns),
      `${time(known.u_c * call.times.mean_ns)} (${(100 * known.u_c).toFixed(1)} %)`, `${known.workload}, ${known.level} threads, caches ${known.caches}, pause ${known.pause_us} µs`]))
      : replays.length > 0 && make('p', { class: 'lead' }, 'How far the response times of these replays can be trusted is not known: no validation of such replays is stored; reprise validate finds it.'));
}

function overTime() {
  const classes = sides.flatMap(side => side.course.heat.map(cell => cell[1]));
  const [from, to] = [classes.reduce((a, b) => Math.min(a, b), 63), classes.reduce((a, b) => Math.max(a, b), 0)];
  const maps = few.map(side => figure('Latency over time · ' + side.name, 'latency-' + side.name,
    () => [['slice_begin_ns', 'at_least_ns', 'calls'], ...side.course.heat.map(([slice, row, n]) => [slice * side.course.slice_ns, 2 ** row, n])],
    heat(side.course, from, to, longest)));
  const courseOf = (title, name, values, text, ticks) => figure(title, name,
    () => [['trace', 'slice_begin_ns', name.replaceAll('-', '_')], ...sides.flatMap(side => values(side).map(p => [side.name, ...p]))],
    lines({ series: series(side => coarser(values(side), side.course.slice_ns, longest / 110), few), step: true, x: { from: 0, to: longest, label: 'time', text: exact, read: ns => 'at ' + time(ns) },
      y: { label: title, text, read: text, ticks } }));
  const by = field => side => side.course[field].map((n, i) => [i * side.course.slice_ns, n * 1e9 / side.course.slice_ns]);
  section('time', 'Over time', 'Each from its first action. In the maps a darker cell holds more calls, on a logarithmic scale.' + fewer,
    key(), make('div', { class: 'grid wide' }, maps, courseOf('Calls per second', 'calls-per-second', by('calls'), rate),
      courseOf('Bytes read per second', 'read-per-second', by('read_bytes'), perSecond, sizeTicks),
      courseOf('Bytes written per second', 'written-per-second', by('written_bytes'), perSecond, sizeTicks), space()));
}

// Of the whole file system, whoever uses it; its change is what the replay came to, if it was alone there.
function space() {
  const sampled = replays.filter(side => side.space.length > 1);
  const points = side => side.space.map(s => [Math.max(s.time_ns, 0), s.used_bytes - side.space[0].used_bytes]);
  const change = bytes => (bytes < 0 ? '−' : bytes > 0 ? '+' : '') + size(Math.abs(bytes));
  const least = Math.min(0, ...sampled.flatMap(side => points(side).map(p => p[1])));
  return sampled.length > 0 && figure('Space on the target, since the start', 'space',
    () => [['trace', 'time_ns', 'used_bytes', 'change_bytes'], ...sampled.flatMap(side => side.space.map(s => [side.name, s.time_ns, s.used_bytes, s.used_bytes - side.space[0].used_bytes]))],
    lines({ series: series(points, few.filter(side => sampled.includes(side))), step: true, x: { from: 0, to: longest, label: 'time', text: exact, read: ns => 'at ' + time(ns) },
      y: { from: least, label: 'change of the space in use', text: change, read: change, ticks: sizeTicks } }));
}

function concurrency() {
  const course = side => side.in_flight.slices.map((n, i) => [i * side.in_flight.slice_ns, n]);
  const ecdf = side => {
    let sum = 0;
    return side.in_flight.levels.map((share, n) => [n, sum += share]);
  };
  const rows = points => () => [['trace', 'x', 'y'], ...sides.flatMap(side => points(side).map(p => [side.name, ...p]))];
  section('concurrency', 'Concurrency', 'Storage calls in flight: how much the storage system had to do at once. A replay that keeps fewer in flight asks less of it.',
    key(), make('div', { class: 'grid wide' },
      figure('In flight over time', 'in-flight', rows(course), lines({ series: series(side => coarser(course(side), side.in_flight.slice_ns, longest / 220)), step: true,
        x: { from: 0, to: longest, label: 'time', text: exact, read: ns => 'at ' + time(ns) }, y: { label: 'in flight', text: level, read: n => n.toFixed(2) } })),
      figure('Share of time with at most so many in flight', 'in-flight-share', rows(ecdf), lines({ series: series(ecdf), step: true,
        x: { from: 0, label: 'in flight', text: level, ticks: wholeTicks, read: n => '≤ ' + Math.floor(n) }, y: { from: 0, to: 1, label: 'share of time', text: percent, read: percent } }))));
}

function pacing() {
  const DASHES = { on_time: undefined, behind: '6 4', disturbed: '2 3' };
  const errors = replays.flatMap(side => side.issue_error.map(e => ({ ...e, side, name: `${side.name}: ${e.words}`,
    points: cumulative(e.bins).map(([bound, share]) => [Math.max(bound, 1), share]) })));
  const waits = replays.filter(side => side.times?.waits.length);
  const rules = [...new Set(waits.flatMap(side => side.times.waits.map(w => w.rule)))];
  const wait = (side, rule) => side.times.waits.find(w => w.rule === rule)?.blocked.total_ns || 0;
  if (!errors.length && !rules.length) return;
  const all = side => side.issue_error.reduce((sum, e) => sum + e.distribution.count, 0);
  const quantiles = e => ['p50_ns', 'p90_ns', 'p99_ns', 'max_ns'].map(q => time(e.distribution[q]));
  section('replay', 'How the replay kept time', 'Issue error: by how much actions were issued later (or earlier) than they were due. A solid line is the replayer’s own error; dashed are actions that were due before what they depend on was complete, dotted those that the machine disturbed. Waits: how long threads were blocked for what an ordering rule puts before them.',
    key(), make('div', { class: 'grid wide' },
      errors.length > 0 && figure('Issue error', 'issue-error', () => [['trace', 'kind', 'at_most_ns', 'share'], ...errors.flatMap(e => e.points.map(p => [e.side.name, e.kind, ...p]))],
        lines({ series: errors.map(e => ({ name: e.name, colour: e.side.colour, dash: DASHES[e.kind], points: e.points })), step: true,
          x: { kind: 'log', label: 'issue error, logarithmic', text: short, read: ns => '≤ ' + time(ns) }, y: { from: 0, to: 1, label: 'share of actions', text: percent, read: percent } })),
      rules.length > 0 && figure('Time blocked, by ordering rule', 'waits', () => [['rule', ...waits.map(s => s.name + '_ns')], ...rules.map(rule => [rule, ...waits.map(s => wait(s, rule))])],
        bars({ names: rules, series: waits.map(side => ({ colour: side.colour, values: rules.map(rule => wait(side, rule)) })), text: time }))),
    make('p'),
    errors.length > 0 && table('punctuality', ['issue error', 'actions', 'share', 'p50', 'p90', 'p99', 'greatest'],
      errors.map(e => [e.name, count(e.distribution.count), percent(e.distribution.count / all(e.side)), ...quantiles(e)])));
}

function threads() {
  const kinds = [...report.categories.map((name, i) => ({ name, colour: KINDS[i] })), { name: 'waiting', colour: WAITING }, { name: 'pace', colour: PACE }];
  const values = thread => [...thread.in_calls_ns, thread.waiting_ns, thread.pacing_ns];
  const sum = thread => values(thread).reduce((a, b) => a + b, 0);
  const greatest = Math.max(1, ...sides.flatMap(side => side.threads.map(sum)));
  const figures = few.map(side => {
    const shown = [...side.threads].sort((a, b) => sum(b) - sum(a)).slice(0, 16);
    return figure('Time of threads · ' + side.name + (side.threads.length > 16 ? `, 16 of ${side.threads.length}` : ''), 'threads-' + side.name,
      () => [['thread', 'name', ...kinds.map(k => k.name.replace('/', '_') + '_ns')], ...side.threads.map(t => [t.thread, t.name, ...values(t)])],
      stacked({ greatest, names: shown.map(t => `T${t.thread} ${t.name}`), parts: kinds.map((kind, i) => ({ ...kind, values: shown.map(t => values(t)[i]) })), text: time }));
  });
  const categoryOf = report.calls.map(call => callKinds.get(call) ?? 7);
  const spans = () => [['trace', 'thread', 'call', 'begin_ns', 'duration_ns'], ...few.flatMap(side => {
    const s = side.spans, begins = decode(s.begins, Float64Array), lengths = decode(s.lengths, Float32Array), calls = decode(s.calls, Uint16Array);
    return s.threads.flatMap((thread, i) => Array.from({ length: s.starts[i + 1] - s.starts[i] }, (_, k) =>
      [side.name, thread, report.calls[calls[s.starts[i] + k]], begins[s.starts[i] + k], lengths[s.starts[i] + k]]));
  })];
  const out = few.filter(side => side.spans.left_out).map(side => `${side.name}: of those shorter than ${time(side.spans.long_ns)} ${count(side.spans.left_out)} are not drawn`);
  section('threads', 'Threads', 'What each thread did when. Ctrl and the wheel or + and − zoom, dragging or arrow keys pan, 0 shows all. ' + out.join('; '),
    legend(kinds.map(kind => [kind.name, kind.colour]), true),
    figure('Timelines', 'timeline', spans, timeline(few, report.calls, KINDS, categoryOf.map(i => KINDS[i]))),
    make('p'), make('div', { class: 'grid', style: 'grid-template-columns:1fr' }, figures));
}

// Most traces whose files are shown.
const PLACES = 6;
function places() {
  const lists = [['files', 'Hot files'], ['directories', 'Hot directories']].flatMap(([field, title]) => few.slice(0, PLACES).map(side => {
    const rows = side[field];
    return rows.length && figure(`${title} · ${side.name}`, field + '-' + side.name, () => [['path', 'calls', 'bytes', 'time_ns'], ...rows.map(r => [r.path, r.calls, r.bytes, r.time_ns])],
      table(field + '-table-' + side.name, ['path', 'calls', 'bytes', 'time'], rows.slice(0, 12).map(r => [{ path: r.path }, count(r.calls), size(r.bytes), time(r.time_ns)])));
  }));
  section('files', 'Files', 'Where the time of storage calls went: files, and directories with what is directly in them.' + fewer + (few.length > PLACES ? ` Of ${few.length} traces the first ${PLACES} are shown.` : ''), make('div', { class: 'grid wide' }, lists.filter(Boolean)));
}

function sizes() {
  const plots = [['read_sizes', 'Sizes of reads'], ['write_sizes', 'Sizes of writes']].map(([field, title]) => {
    const from = [...new Set(sides.flatMap(side => side[field].map(c => c.from_bytes)))].sort((a, b) => a - b);
    const n = (side, bytes) => side[field].find(c => c.from_bytes === bytes)?.count || 0;
    return from.length && figure(title, field.replace('_', '-'), () => [['from_bytes', ...sides.map(s => s.name)], ...from.map(b => [b, ...sides.map(s => n(s, b))])],
      bars({ names: from.map(b => b ? 'from ' + size(b).replace(/\.0+ /, ' ') : '0 B'), series: sides.map(side => ({ colour: side.colour, values: from.map(b => n(side, b)) })), text: count }));
  });
  if (plots.some(Boolean)) section('sizes', 'Sizes', 'Bytes that calls asked for, in classes of powers of two.', key(), make('div', { class: 'grid wide' }, plots.filter(Boolean)));
}

// Category of each call by its place in the report's list.
const callKinds = new Map(report.call_kinds.map((kind, i) => [report.calls[i], kind]));
summary(); losses(); beside(); responseTimes(); overTime(); concurrency(); pacing(); threads(); places(); sizes();
redraw();
addEventListener('resize', redraw);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
document.documentElement.dataset.ready = 'true';
