// Thread timelines on a canvas: zoom by Ctrl and wheel (with focus by the wheel alone), + and −; pan by drag or arrow keys; 0 shows all.
// Spans of a thread are sorted by their begin: of what is not in view nothing is looked at, and of what falls into one pixel
// one rectangle is drawn.
function decode(text, type) {
  const bytes = Uint8Array.from(atob(text), c => c.charCodeAt(0));
  return new type(bytes.buffer);
}
function timeline(sides, calls, colours, colourOf) {
  const rows = [];
  for (const side of sides) {
    const s = side.spans, begins = decode(s.begins, Float64Array), lengths = decode(s.lengths, Float32Array), kinds = decode(s.calls, Uint16Array);
    s.threads.forEach((thread, i) => {
      const known = side.threads.find(t => t.thread === thread);
      rows.push({ side, begins, lengths, kinds, from: s.starts[i], to: s.starts[i + 1],
        name: (sides.length > 1 ? side.name + ' ' : '') + 'T' + thread + (known && known.name ? ' ' + known.name : '') });
    });
  }
  const whole = Math.max(1, ...sides.map(side => side.elapsed_ns));
  const view = { from: 0, to: whole, top: 0 };
  const head = 20, row = 15, most = Math.min(rows.length, 32), H = head + most * row + 4;
  return caption => {
    const canvas = make('canvas', { tabindex: 0, role: 'application', style: `height:${H}px;cursor:grab`,
      'aria-label': 'thread timelines; plus and minus zoom, arrow keys pan, zero shows all' });
    const width = () => canvas.clientWidth || 1100;
    let left = 150;
    const perNs = () => (width() - left) / (view.to - view.from);
    // The first span that ends after an instant: the one before the first that begins after it may reach in.
    const first = (r, ns) => {
      let low = r.from, high = r.to;
      while (low < high) { const middle = (low + high) >> 1; if (r.begins[middle] < ns) low = middle + 1; else high = middle; }
      return Math.max(r.from, low - 1);
    };
    canvas.draw = () => {
      const ratio = devicePixelRatio || 1, W = width();
      left = Math.min(150, W / 4);
      canvas.width = W * ratio; canvas.height = H * ratio;
      const g = canvas.getContext('2d');
      g.scale(ratio, ratio);
      g.clearRect(0, 0, W, H);
      g.font = '11px system-ui';
      const ns = perNs(), grid = style('--grid'), faint = style('--faint');
      g.textAlign = 'center';
      const ticks = linearTicks(view.from, view.to, Math.max(2, (W - left) / 110));
      for (const at of ticks) {
        const x = left + (at - view.from) * ns;
        g.fillStyle = grid; g.fillRect(x, head - 4, 1, H);
        g.fillStyle = faint; g.fillText(exact(at, ticks[1] - ticks[0]), Math.min(x, W - 24), 11);
      }
      g.textAlign = 'left';
      for (let i = 0; i < most; i++) {
        const r = rows[i + view.top], y = head + i * row;
        if (!r) break;
        g.fillStyle = faint;
        g.fillText(fitting(r.name, left), 0, y + 10);
        let drawn = -1, colour = '';
        for (let k = first(r, view.from); k < r.to; k++) {
          const begin = r.begins[k];
          if (begin > view.to) break;
          const x0 = Math.max(left, left + (begin - view.from) * ns), x1 = left + (begin + r.lengths[k] - view.from) * ns;
          if (x1 < left) continue;
          const pixel = Math.floor(x0 * ratio);
          if (x1 - x0 < 1 && pixel === drawn) continue;
          drawn = pixel;
          const c = colourOf[r.kinds[k]];
          if (c !== colour) g.fillStyle = colour = c;
          g.fillRect(x0, y, Math.max(Math.min(x1, W) - x0, 0.75), row - 3);
        }
      }
      canvas.dataset.from = view.from; canvas.dataset.to = view.to;
      if (rows.length > most) shown.textContent = `rows ${view.top + 1} to ${view.top + most} of ${rows.length}: ↑ and ↓, or dragging, scroll`;
    };
    const clamp = () => {
      const span = Math.min(whole, Math.max(view.to - view.from, 100));
      view.from = Math.min(Math.max(0, view.from), whole - span);
      view.to = view.from + span;
      view.top = Math.max(0, Math.min(rows.length - most, view.top));
    };
    let waiting = false;
    const show = () => {
      clamp();
      if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; canvas.draw(); }); }
    };
    const zoom = (factor, x = (left + width()) / 2) => {
      const at = view.from + Math.max(0, x - left) / perNs();
      view.from = at - (at - view.from) * factor;
      view.to = at + (view.to - at) * factor;
      show();
    };
    const pan = share => { const by = share * (view.to - view.from); view.from += by; view.to += by; show(); };
    const reset = () => { view.from = 0; view.to = whole; show(); };
    canvas.addEventListener('wheel', event => {
      // Else the wheel scrolls the page.
      if (!event.ctrlKey && !event.metaKey && document.activeElement !== canvas) return;
      if (!event.shiftKey) { zoom(event.deltaY > 0 ? 1.25 : 0.8, event.offsetX); event.preventDefault(); }
      else { view.top += Math.sign(event.deltaY || event.deltaX); show(); event.preventDefault(); }
    }, { passive: false });
    let held;
    canvas.addEventListener('pointerdown', event => { held = { x: event.clientX, y: event.clientY, ...view }; canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener('pointerup', () => { held = undefined; });
    canvas.addEventListener('pointermove', event => {
      if (held) {
        const by = (event.clientX - held.x) / perNs();
        view.from = held.from - by; view.to = held.to - by;
        view.top = held.top - Math.round((event.clientY - held.y) / row);
        return show();
      }
      const r = rows[view.top + Math.floor((event.offsetY - head) / row)];
      const at = view.from + (event.offsetX - left) / perNs();
      if (!r || event.offsetX < left) { caption.textContent = ''; return; }
      const k = first(r, at + 1 / perNs()), inside = r.begins[k] <= at + 1 / perNs() && at - 1 / perNs() <= r.begins[k] + r.lengths[k];
      const step = 1 / perNs();
      caption.textContent = inside ? `${r.name}: ${calls[r.kinds[k]]} at ${exact(r.begins[k], step)} took ${time(r.lengths[k])}` : `${r.name} at ${exact(at, step)}`;
    });
    canvas.addEventListener('keydown', event => {
      const action = { '+': () => zoom(0.6), '=': () => zoom(0.6), '-': () => zoom(1 / 0.6), '0': reset, ArrowLeft: () => pan(-0.2),
        ArrowRight: () => pan(0.2), ArrowUp: () => { view.top--; show(); }, ArrowDown: () => { view.top++; show(); } }[event.key];
      if (action) { action(); event.preventDefault(); }
    });
    redrawn.push(canvas);
    const shown = make('span', { class: 'shown' });
    const button = (text, title, act) => make('button', { type: 'button', title, click: act }, text);
    return make('div', {}, make('div', { class: 'tools' }, button('+', 'Zoom in', () => zoom(0.6)), button('−', 'Zoom out', () => zoom(1 / 0.6)),
      button('◀', 'Earlier', () => pan(-0.3)), button('▶', 'Later', () => pan(0.3)), button('All', 'Show all', reset), shown), canvas);
  };
}
