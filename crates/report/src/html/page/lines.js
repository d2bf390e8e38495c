// Lines over an axis that is linear or logarithmic; a pointer or the arrow keys read values off.
function scale(kind, from, to, low, high) {
  const f = kind === 'log' ? Math.log : x => x;
  const a = f(from), span = f(to) - a || 1;
  return value => low + (f(Math.max(value, kind === 'log' ? from : -Infinity)) - a) / span * (high - low);
}
function lines({ series, x, y, width = 520, height = 210, step = false }) {
  const W = width, right = W - 8, top = 22, bottom = height - 40;
  const all = series.flatMap(s => s.points), xs = all.map(p => p[0]), ys = all.map(p => p[1]);
  const positive = xs.filter(v => v > 0);
  let x0 = x.kind === 'log' ? positive.reduce((a, b) => Math.min(a, b), Infinity) : xs.reduce((a, b) => Math.min(a, b), x.from ?? Infinity);
  let x1 = xs.reduce((a, b) => Math.max(a, b), x.to ?? -Infinity);
  if (!isFinite(x0)) x0 = 1;
  if (!(x1 > x0)) x1 = x0 * 1.1 + 1;
  // A share rises from nothing, inside of the axis.
  const share = y.to === 1;
  if (x.kind === 'log') { const room = Math.max((x1 / x0) ** .04, 1.05); x0 /= room; x1 *= room; }
  const y1 = y.to ?? (ys.reduce((a, b) => Math.max(a, b), 0) * 1.06 || 1), y0 = y.from ?? 0;
  const high = (y.ticks || linearTicks)(y0, y1, 4), labels = high.map(at => y.text(at));
  const left = Math.max(40, 14 + 6.2 * Math.max(...labels.map(text => text.length)));
  const wide = x.kind === 'log' ? logTicks(x0, x1) : (x.ticks || linearTicks)(x0, x1, W / 100);
  const px = scale(x.kind, x0, x1, left, right), py = scale('linear', y0, y1, bottom, top);
  return caption => {
    const svg = make('svg:svg', { viewBox: `0 0 ${W} ${height}`, role: 'img', tabindex: 0, 'aria-label': x.label + ' and ' + y.label });
    high.forEach((at, i) => {
      svg.append(make('svg:line', { class: 'gridline', x1: left, x2: right, y1: py(at), y2: py(at) }),
        make('svg:text', { x: left - 6, y: py(at) + 4, 'text-anchor': 'end' }, labels[i]));
    });
    let free = -Infinity;
    for (const at of wide) {
      const text = x.text(at, wide[1] - wide[0]), half = 3.1 * text.length, middle = Math.min(px(at), right - half / 2);
      svg.append(make('svg:line', { class: 'gridline', x1: px(at), x2: px(at), y1: top, y2: bottom }));
      if (middle - half < free) continue;
      free = middle + half + 4;
      svg.append(make('svg:text', { x: middle, y: bottom + 15, 'text-anchor': 'middle' }, text));
    }
    svg.append(make('svg:line', { class: 'axis', x1: left, x2: right, y1: bottom, y2: bottom }),
      make('svg:text', { class: 'axis-name', x: 2, y: 11 }, y.label), make('svg:text', { class: 'axis-name', x: right, y: bottom + 31, 'text-anchor': 'end' }, x.label));
    for (const s of series) {
      let path = share ? `M${left} ${bottom}` : '', before;
      for (const [a, b] of s.points) {
        const [u, v] = [px(a).toFixed(1), py(b).toFixed(1)];
        path += path ? (step ? `H${u}V${v}` : `L${u} ${v}`) : `M${u} ${v}`;
        before = v;
      }
      // A share stays what it has come to.
      if (share && before !== undefined) path += `H${right}`;
      svg.append(make('svg:path', { class: 'line', d: path, stroke: s.colour, 'stroke-dasharray': s.dash }));
    }
    const cursor = make('svg:line', { class: 'cursor', y1: top, y2: bottom, visibility: 'hidden' });
    svg.append(cursor);
    let at = (left + right) / 2;
    const inverse = p => {
      const share = (p - left) / (right - left);
      return x.kind === 'log' ? Math.exp(Math.log(x0) + share * (Math.log(x1) - Math.log(x0))) : x0 + share * (x1 - x0);
    };
    const value = (s, position) => {
      let low = 0, high = s.points.length;
      while (low < high) { const middle = (low + high) >> 1; if (s.points[middle][0] <= position) low = middle + 1; else high = middle; }
      return low ? s.points[low - 1][1] : y0;
    };
    const read = p => {
      at = Math.max(left, Math.min(right, p));
      const position = inverse(at);
      cursor.setAttribute('x1', at); cursor.setAttribute('x2', at); cursor.setAttribute('visibility', 'visible');
      caption.textContent = x.read(position) + ': ' + series.map(s => s.name + ' ' + y.read(value(s, position))).join(', ');
    };
    svg.addEventListener('pointermove', event => {
      const box = svg.getBoundingClientRect();
      read((event.clientX - box.left) / box.width * W);
    });
    svg.addEventListener('pointerleave', () => { cursor.setAttribute('visibility', 'hidden'); caption.textContent = ''; });
    svg.addEventListener('keydown', event => {
      const move = { ArrowLeft: -8, ArrowRight: 8 }[event.key];
      if (move) { read(at + move); event.preventDefault(); }
    });
    return svg;
  };
}
// From bins (lower bound, count) to the share that is not above.
function cumulative(bins) {
  const total = bins.reduce((sum, bin) => sum + bin[1], 0);
  let sum = 0;
  return bins.map(([bound, n]) => [bound, (sum += n) / total]);
}
// A course in fewer slices, each the mean of several: what is drawn is no finer than what can be seen. The last one has an end, too.
function coarser(points, slice_ns, width_ns) {
  const together = Math.max(1, Math.round(width_ns / slice_ns)), out = [];
  for (let i = 0; i < points.length; i += together) {
    const part = points.slice(i, i + together);
    out.push([part[0][0], part.reduce((sum, p) => sum + p[1], 0) / part.length]);
  }
  if (out.length) out.push([points.at(-1)[0] + slice_ns, out.at(-1)[1]]);
  return out;
}
