// Numbers with units, and colours. Colours are those of Okabe and Ito, told apart with any colour vision.
const SIDES = ['#1f86d0', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#8a6d3b', '#7a7a7a'];
// None of them is the colour of a trace.
const KINDS = ['#56b4e9', '#e69f00', '#7b3294', '#009e73', '#f0e442', '#cc79a7', '#8a6d3b', '#5b6472'];
const WAITING = '#d0d4dc', PACE = '#9a86c4';

const digits = value => value < 9.995 ? value.toFixed(2) : value < 99.95 ? value.toFixed(1) : value.toFixed(0);
function time(ns) {
  const size = Math.abs(ns), sign = ns < 0 ? '−' : '';
  if (size < 1e3) return sign + Math.round(size) + ' ns';
  if (size < 999.5e3) return sign + digits(size / 1e3) + ' µs';
  if (size < 999.5e6) return sign + digits(size / 1e6) + ' ms';
  if (size < 600e9) return sign + digits(size / 1e9) + ' s';
  return sign + Math.floor(size / 60e9) + ' min ' + Math.round(size / 1e9 % 60) + ' s';
}
function size(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let place = 0;
  while (bytes >= 999.5 && place < 4) { bytes /= 1024; place++; }
  return (place ? digits(bytes) : Math.round(bytes)) + ' ' + units[place];
}
const counted = (n, noun) => count(n) + ' ' + noun + (n === 1 ? '' : 's');
const count = n => Math.round(n).toLocaleString('en');
const rate = n => n >= 1e6 ? digits(n / 1e6) + ' M' : n >= 1e4 ? digits(n / 1e3) + ' k' : n >= 10 ? count(n) : n.toFixed(n ? 1 : 0);
const percent = share => (100 * share).toFixed(share > 0.99 && share < 1 || share < 0.01 && share > 0 ? 2 : 0) + ' %';
const level = n => n < 10 ? String(+n.toFixed(2)) : n.toFixed(0);
const perSecond = bytes => size(bytes) + '/s';
// Ticks for people: of times and sizes powers in their own base.
function short(ns) { return time(ns).replace(/\.0+(?= )/, '').replace(/(\.\d*?)0+(?= )/, '$1'); }
// A time with as many digits as tell it from another one a step away.
function exact(ns, step) {
  const [unit, name] = [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']].find(([unit]) => Math.abs(ns) >= unit * .9995) || [1, 'ns'];
  const places = Math.min(9, Math.max(0, Math.ceil(Math.log10(unit / step) - 1e-9)));
  return (ns / unit).toFixed(unit > 1 ? places : 0).replace('-', '−') + ' ' + name;
}

function linearTicks(from, to, most = 5) {
  const rough = (to - from) / most || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(n => n * power).find(n => n >= rough);
  const out = [];
  for (let at = Math.ceil(from / step) * step; at <= to + step / 1e6; at += step) out.push(at);
  return out;
}
// Of what is counted.
const wholeTicks = (from, to, most) => linearTicks(from, to, most).filter(Number.isInteger);
// Of bytes: round numbers of the unit that fits.
function sizeTicks(from, to, most) {
  const unit = 1024 ** Math.max(0, Math.floor(Math.log2(Math.max(to, -from, 1)) / 10));
  return linearTicks(from / unit, to / unit, most).filter(n => unit > 1 || Number.isInteger(n)).map(n => n * unit);
}
// Powers of ten; where there are few of them what lies between them, too.
function logTicks(from, to) {
  const among = digits => {
    const out = [];
    for (let power = Math.floor(Math.log10(from)); 10 ** power <= to; power++) out.push(...digits.map(digit => digit * 10 ** power));
    return out.filter(at => at >= from * .9999 && at <= to * 1.0001);
  };
  const out = [[1], [1, 2, 5], [1, 2, 3, 4, 5, 6, 7, 8, 9]].map(among).find(ticks => ticks.length > 2) || linearTicks(from, to, 4);
  const skip = Math.ceil(out.length / 7);
  return out.filter((_, i) => i % skip === 0);
}
