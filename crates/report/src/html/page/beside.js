// Several replays beside each other: which differences are real.
const signed = share => (share < 0 ? '−' : '+') + (100 * Math.abs(share)).toFixed(1) + ' %';
const SOURCES = { replications: 'interval of 95 % from the replications', validation: 'U (k = 2) from the validation of the machine', nothing: 'one run: how much it varies is not known' };

function beside() {
  const { groups, rows } = report.beside || { groups: [], rows: [] };
  if (!rows.length) return;
  const title = row => row.quantity === 'elapsed' ? 'elapsed' : row.quantity.mean_response + ', mean';
  const estimate = e => !e.values.length ? '–' : time(e.mean) + (e.expanded === null ? '' : ' ± ' + time(e.expanded));
  const told = e => `${estimate(e)} of ${e.values.length} run${e.values.length === 1 ? '' : 's'} (${SOURCES[e.source]})`;
  const plots = rows.filter(row => row.estimates.some(e => e.values.length)).map(row => {
    const kept = groups.map((group, i) => ({ ...row.estimates[i], name: group.name, colour: group.colour })).filter(e => e.values.length);
    return figure(title(row), 'beside-' + (row.quantity.mean_response || 'elapsed'),
      () => [['group', 'run', 'value_ns', 'mean_ns', 'expanded_ns', 'uncertainty_from'], ...kept.flatMap(e => e.values.map((value, i) => [e.name, i + 1, value, e.mean, e.expanded ?? '', e.source]))],
      intervals({ rows: kept, text: told, width: 350 }));
  });
  const verdicts = { equal: () => 'equal within 5 %', cannot_be_told: () => 'cannot be told', greater: pair => groups[pair.second].name + ' takes longer', less: pair => groups[pair.second].name + ' takes less' };
  const pairs = rows.flatMap(row => [
    ...row.differences.map(pair => {
      const base = row.estimates[pair.first].mean, d = pair.difference;
      return [title(row), `${groups[pair.first].name}, ${groups[pair.second].name}`, signed(d.bias / base), `${signed(d.from / base)} to ${signed(d.to / base)}`, 'replications, p ' + (pair.p_adjusted < .001 ? '< 0.001' : pair.p_adjusted.toFixed(3)), verdicts[pair.verdict](pair)];
    }),
    ...row.by_validation.map(pair => [title(row), `${groups[pair.first].name}, ${groups[pair.second].name}`, signed(pair.relative), `${signed(pair.relative - pair.expanded)} to ${signed(pair.relative + pair.expanded)}`, 'validation, k = 2',
      pair.is_real ? `${groups[pair.second].name} takes ${pair.relative > 0 ? 'longer' : 'less'}` : 'cannot be told'])]);
  const unknown = rows.every(row => row.estimates.every(e => e.source === 'nothing'));
  const lead = unknown
    ? 'Each setting was replayed once, and no validation of the machine is stored (reprise validate): nothing says which differences are real. Replay each three times or more.'
    : 'Replays with the same settings are replications of each other: their scatter says how uncertain their mean is. A dot is a run, the bar reaches as far as the mean is uncertain.' + (groups.some(group => group.members.length === 1)
      ? rows.some(row => row.estimates.some(e => e.source === 'validation')) ? ' Where there is one run only, the stored validation of the machine says it.' : ' Of what was replayed once it is not known: no validation of the machine is stored (reprise validate).' : '');
  const head = ['', ...groups.map(group => `${group.name} (${group.members.length})`)];
  section('beside', groups.length > 1 ? 'Which differences are real' : 'Replications', lead,
    make('div', { class: 'grid' }, plots), make('p'),
    table('beside-table', head, rows.map(row => [title(row), ...row.estimates.map(estimate)])), make('p'),
    pairs.length > 0 && table('differences', ['', 'groups', 'difference', 'interval', 'from', 'verdict'], pairs));
}
