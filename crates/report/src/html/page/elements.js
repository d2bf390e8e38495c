// Making elements. Texts of traces go in as text, never as markup.
const SVG = 'http://www.w3.org/2000/svg';
function make(name, attributes = {}, ...children) {
  const element = name.startsWith('svg:') ? document.createElementNS(SVG, name.slice(4)) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === 'function') element.addEventListener(key, value);
    else if (value !== undefined && value !== false) element.setAttribute(key, value);
  }
  for (const child of children.flat()) if (child !== undefined && child !== null && child !== false) element.append(child);
  return element;
}
const style = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function csv(rows) {
  const cell = value => /[",\n\r]/.test(value) ? '"' + String(value).replaceAll('"', '""') + '"' : String(value ?? '');
  return rows.map(row => row.map(cell).join(',')).join('\r\n') + '\r\n';
}
function download(name, text) {
  const link = make('a', { href: URL.createObjectURL(new Blob([text], { type: 'text/csv' })), download: name + '.csv' });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
// A figure: title, button for its data, what is drawn, and a line that says what the pointer is at.
function figure(title, name, rows, ...drawn) {
  const caption = make('figcaption', { 'aria-live': 'polite' });
  const button = make('button', { type: 'button', title: 'The data of this plot as CSV', click: () => download(name, csv(rows())) }, 'CSV');
  const element = make('figure', { 'data-plot': name }, make('header', {}, make('h3', {}, title), button));
  for (const part of drawn) element.append(typeof part === 'function' ? part(caption) : part);
  element.append(caption);
  element.rows = rows;
  return element;
}
function legend(entries, blocks) {
  return make('ul', { class: blocks ? 'legend blocks' : 'legend' }, entries.map(([name, colour]) =>
    make('li', {}, make('i', { style: 'background:' + colour }), name)));
}
function table(name, head, rows) {
  const cells = (row, tag) => row.map(value => value && value.path !== undefined
    ? make(tag, { class: 'path', title: value.path }, make('bdi', {}, value.path)) : make(tag, {}, String(value)));
  return make('div', { class: 'scroll', 'data-plot': name, tabindex: 0 }, make('table', {},
    make('thead', {}, make('tr', {}, cells(head, 'th'))),
    make('tbody', {}, rows.map(row => make('tr', {}, cells(row, 'td'))))));
}
// The document, as it is drawn.
const contents = () => document.getElementById('contents');
function section(id, title, lead, ...children) {
  const kept = children.flat().filter(Boolean);
  if (!kept.length) return;
  contents().append(make('li', {}, make('a', { href: '#' + id }, title)));
  document.getElementById('main').append(
    make('section', { id, 'aria-label': title }, make('h2', {}, title), make('p', { class: 'lead' }, lead), kept));
}
