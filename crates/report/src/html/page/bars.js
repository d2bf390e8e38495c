// Bars: side by side, or in parts; and a heat map.
function bars({ names, series, text, width = 480 }) {
  const row = 8 + 11 * series.length, label = 92, W = width;
  const greatest = Math.max(1e-9, ...series.flatMap(s => s.values));
  const svg = make('svg:svg', { viewBox: `0 0 ${W} ${names.length * row + 4}`, role: 'img', 'aria-label': 'bars' });
  names.forEach((name, i) => {
    svg.append(make('svg:text', { class: 'name', x: label - 8, y: i * row + row / 2 + 3, 'text-anchor': 'end' }, name));
    series.forEach((s, j) => {
      const y = i * row + 3 + j * 11, length = s.values[i] / greatest * (W - label - 84);
      svg.append(make('svg:rect', { x: label, y, width: Math.max(length, s.values[i] ? 1 : 0), height: 9, fill: s.colour, rx: 1 }),
        make('svg:text', { x: label + length + 5, y: y + 8.5 }, s.values[i] ? text(s.values[i]) : ''));
    });
  });
  return svg;
}
function stacked({ names, parts, text, greatest }) {
  const row = 17;
  const totals = names.map((_, i) => parts.reduce((sum, part) => sum + part.values[i], 0));
  const drawn = (W, caption) => {
    const label = Math.min(150, W / 3);
    const svg = make('svg:svg', { viewBox: `0 0 ${W} ${names.length * row + 4}`, role: 'img', 'aria-label': 'stacked bars' });
    names.forEach((name, i) => {
      svg.append(make('svg:text', { class: 'name', x: label - 8, y: i * row + 12, 'text-anchor': 'end' }, fitting(name, label - 8)));
      let x = label;
      for (const part of parts) {
        const length = part.values[i] / greatest * (W - label - 80);
        if (length < 0.1) continue;
        svg.append(make('svg:rect', { x, y: i * row + 2, width: length, height: 13, fill: part.colour,
          pointerenter: () => { caption.textContent = `${name}: ${part.name} ${text(part.values[i])} of ${text(totals[i])}`; } }));
        x += length;
      }
      svg.append(make('svg:text', { x: x + 5, y: i * row + 12 }, text(totals[i])));
    });
    return svg;
  };
  // As wide as there is room: letters keep their size.
  return caption => {
    const place = make('div');
    place.draw = () => place.replaceChildren(drawn(place.clientWidth || 1100, caption));
    redrawn.push(place);
    return place;
  };
}
// As much of a name as fits into so many pixels.
function fitting(name, width) {
  const most = Math.max(3, Math.floor(width / 6));
  return name.length > most ? name.slice(0, most - 1) + '…' : name;
}
// Columns are slices of time, rows classes of response times (powers of two), darkness how many.
function heat(course, from, to, span_ns) {
  return caption => {
    const canvas = make('canvas', { height: 180, role: 'img', tabindex: 0, 'aria-label': 'latency over time' });
    const slices = Math.max(1, Math.ceil(span_ns / course.slice_ns)), rows = to - from + 1;
    const cells = new Map(course.heat.map(([slice, row, n]) => [slice * 64 + row, n]));
    const greatest = course.heat.reduce((most, cell) => Math.max(most, cell[2]), 1);
    const left = 58, bottom = 20;
    canvas.draw = () => {
      const ratio = devicePixelRatio || 1, W = canvas.clientWidth || 480, H = 180;
      canvas.width = W * ratio; canvas.height = H * ratio;
      const g = canvas.getContext('2d');
      g.scale(ratio, ratio);
      g.clearRect(0, 0, W, H);
      const w = (W - left) / slices, h = (H - bottom) / rows;
      const ink = style('--shade');
      for (const [slice, row, n] of course.heat) {
        g.fillStyle = `rgba(${ink},${0.12 + 0.88 * Math.log(n + 1) / Math.log(greatest + 1)})`;
        g.fillRect(left + slice * w, H - bottom - (row - from + 1) * h, Math.max(w, 1.5), h);
      }
      g.fillStyle = style('--faint'); g.font = '11px system-ui'; g.textAlign = 'right';
      const every = Math.ceil(rows / 7);
      for (let row = from; row <= to; row += every) g.fillText(short(2 ** row), left - 5, H - bottom - (row - from) * h);
      g.textAlign = 'center';
      const ticks = linearTicks(0, span_ns, Math.max(2, (W - left) / 90));
      for (const at of ticks) g.fillText(exact(at, ticks[1] - ticks[0]), Math.min(left + at / course.slice_ns * w, W - 18), H - 5);
    };
    canvas.addEventListener('pointermove', event => {
      const box = canvas.getBoundingClientRect(), rowHeight = (180 - bottom) / rows;
      const slice = Math.floor((event.clientX - box.left - left) / (box.width - left) * slices);
      const row = from + Math.floor((180 - bottom - (event.clientY - box.top)) / rowHeight);
      const n = cells.get(slice * 64 + row) || 0;
      caption.textContent = slice < 0 || row < from ? '' :
        `at ${time(slice * course.slice_ns)}: ${counted(n, 'call')} took ${short(2 ** row)} to ${short(2 ** (row + 1))}`;
    });
    redrawn.push(canvas);
    return make('div', {}, canvas, make('p', { class: 'shades' }, '1 call', make('i'), count(greatest) + ' in a cell (logarithmic)'));
  };
}
// What is drawn anew when the window changes, or light turns to dark.
const redrawn = [];
function redraw() { for (const canvas of redrawn) canvas.draw(); }
