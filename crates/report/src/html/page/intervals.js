// Means with what they are uncertain by, a row each: dots are runs, the mark is their mean, the bar reaches as far as it is uncertain.
function intervals({ rows, text, width = 480 }) {
  const W = width, row = 26, label = 120, right = W - 12, bottom = rows.length * row + 4;
  const ends = rows.flatMap(r => [...r.values, ...(r.expanded === null ? [] : [r.mean - r.expanded, r.mean + r.expanded])]);
  const most = Math.max(...ends, 1) * 1.04, least = Math.max(0, Math.min(...ends, most));
  // From nothing, unless all of them are so close together that nobody would see a difference.
  const from = least > most * .6 ? least - (most - least) * .6 : 0;
  const px = scale('linear', from, most, label, right);
  return caption => {
    const svg = make('svg:svg', { viewBox: `0 0 ${W} ${bottom + 20}`, role: 'img', 'aria-label': 'means and their uncertainty' });
    const ticks = linearTicks(from, most, 4);
    for (const at of ticks) if (at <= most) {
      svg.append(make('svg:line', { class: 'gridline', x1: px(at), x2: px(at), y1: 0, y2: bottom }),
        make('svg:text', { x: Math.min(px(at), right - 10), y: bottom + 14, 'text-anchor': 'middle' }, exact(at, ticks[1] - ticks[0])));
    }
    svg.append(make('svg:line', { class: 'axis', x1: label, x2: right, y1: bottom, y2: bottom }));
    rows.forEach((r, i) => {
      const y = i * row + row / 2;
      const line = make('svg:g', { pointerenter: () => { caption.textContent = `${r.name}: ${text(r)}`; } },
        make('svg:rect', { x: 0, y: i * row, width: W, height: row, fill: 'transparent' }),
        make('svg:text', { class: 'name', x: label - 8, y: y + 4, 'text-anchor': 'end' }, r.name.length > 18 ? r.name.slice(0, 17) + '…' : r.name));
      if (r.expanded !== null) {
        const [a, b] = [px(Math.max(r.mean - r.expanded, from)), px(r.mean + r.expanded)];
        line.append(make('svg:rect', { x: a, y: y - 5, width: Math.max(b - a, 1), height: 10, rx: 3, fill: r.colour, 'fill-opacity': .25 }));
      }
      for (const value of r.values) line.append(make('svg:circle', { cx: px(value), cy: y, r: 3, fill: r.colour, 'fill-opacity': .55 }));
      line.append(make('svg:line', { x1: px(r.mean), x2: px(r.mean), y1: y - 8, y2: y + 8, stroke: r.colour, 'stroke-width': 2 }));
      svg.append(line);
    });
    return svg;
  };
}
