// The page for the lake: all tables, one table, where an event is. It only reads (../webserver.py, jobs/strandline/operate/lake_page.py).
//
// What the lake holds is foreign text: it becomes text of the page and never its mark-up, and signs that take no room or turn the
// direction of writing are shown as code points. Times are measured by the server's clock, which the lake is written by.
'use strict';

const EVERY = 5000; // milliseconds between two questions; the server looks at the lake less often than it is asked
const NARROW = matchMedia('(max-width: 52rem)');
const UNSEEN = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Cn}\p{Zl}\p{Zp}]/u;
const SVG = 'http://www.w3.org/2000/svg';
const CARD = 46, STEP = 56, HEAD = 26;
const FEW = 8;

const $ = id => document.getElementById(id);
const main = $('main'), field = $('search'), list = $('found');
const state = { seen: null, at: 0, byId: new Map(), view: 'graph', sort: ['', 1], redraw: null, route: null };

// ---- text and elements ----------------------------------------------------------------------------------------

function words(parent, text) {
  if (!UNSEEN.test(text)) return parent.append(text);
  for (const sign of text) {
    if (!UNSEEN.test(sign) || sign === '\n' || sign === '\t') parent.append(sign);
    else {
      const odd = document.createElement('span');
      odd.className = 'odd';
      odd.textContent = 'U+' + sign.codePointAt(0).toString(16).toUpperCase().padStart(4, '0');
      parent.append(odd);
    }
  }
}

function el(tag, props, ...kids) {
  const made = tag.startsWith('svg:') ? document.createElementNS(SVG, tag.slice(4)) : document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? '' : value);
  }
  for (const kid of kids.flat(2)) {
    if (kid === null || kid === undefined || kid === false) continue;
    if (kid instanceof Node) made.append(kid);
    else words(made, String(kid));
  }
  return made;
}

// A long name may be broken after a point or an underscore, and nowhere else.
const named = text => String(text).split(/(?<=[._:])/).flatMap((part, n) => n ? [el('wbr'), part] : [part]);
const sign = verdict => el('svg:svg', { 'aria-hidden': 'true' }, el('svg:use', { href: '#v-' + verdict.replace(/[^a-z]+/g, '-') }));
const icon = name => el('svg:svg', { 'aria-hidden': 'true' }, el('svg:use', { href: '#i-' + name }));
const tone = verdict => state.seen?.verdicts[verdict]?.tone || 'none';
const badge = verdict => el('span', { class: 'badge ' + tone(verdict), title: state.seen?.verdicts[verdict]?.means }, sign(verdict), verdict);
const count = value => value === null || value === undefined ? '–' : Math.round(value).toLocaleString('en-US');
const short = new Intl.NumberFormat('en-US', { notation: 'compact', maximumFractionDigits: 1 });
const brief = value => value === null || value === undefined ? '–' : value < 100000 ? count(value) : short.format(value);
const many = (value, one) => `${count(value)} ${one}${value === 1 ? '' : 's'}`;

function span(seconds) {
  for (const [unit, name] of [[86400, 'd'], [3600, 'h'], [60, 'min']]) {
    if (Math.abs(seconds) >= unit * (unit === 86400 ? 2 : 1)) return `${(seconds / unit).toFixed(1).replace('.0', '')} ${name}`;
  }
  return `${seconds < 10 && seconds % 1 ? seconds.toFixed(1) : Math.round(seconds)} s`;
}

const now = () => Date.parse(state.seen.looked_at) + (performance.now() - state.at);
function ago(iso) {
  if (!iso) return '–';
  const passed = (now() - Date.parse(iso)) / 1000;
  if (passed < -5) return `${span(-passed)} ahead`; // a clock that is wrong is seen, and not hidden
  return passed < 1 ? 'just now' : `${span(passed)} ago`;
}
const moment = iso => iso ? iso.slice(0, 19).replace('T', ' ') : '–';
const time = iso => el('time', { datetime: iso, title: iso && moment(iso) + ' UTC' }, ago(iso));

const to = {
  table: id => '#/table/' + encodeURIComponent(id),
  moments: '#/moments',
  why: (event, table) => '#/why/' + encodeURIComponent(event) + (table ? '/' + encodeURIComponent(table) : ''),
  dagster: (id, view) => '../assets/' + id.split('.').map(encodeURIComponent).join('/') + (view ? '?view=' + view : ''),
};
const layerOf = id => id.slice(0, id.indexOf('.'));
const nameOf = id => id.slice(id.indexOf('.') + 1);

async function ask(path) {
  const answer = await fetch('data/' + path, { headers: { Accept: 'application/json' } });
  const found = await answer.json().catch(() => ({ error: `the server answered ${answer.status}`, hint: 'is `strandline ui` still running?' }));
  if (!answer.ok) throw Object.assign(new Error(found.error), found);
  return found;
}

const failed = error => el('div', { class: 'error', role: 'alert' },
  el('p', null, el('b', null, error.error || 'the server does not answer')), el('p', null, error.hint || 'is `strandline ui` still running?'));

// ---- all tables -------------------------------------------------------------------------------------------------

// A place for each table: a column for each layer and for each further reading within it, in it the order in which lines cross least.
function placed(tables) {
  const inner = new Map(), columns = new Map(), layers = ['bronze', 'silver', 'gold'];
  for (const each of tables) { // the server names a table after those that it reads
    const same = each.reads.filter(id => inner.has(id) && layerOf(id) === each.layer).map(id => inner.get(id) + 1);
    inner.set(each.id, Math.max(0, ...same));
    const key = layers.indexOf(each.layer) * 1000 + inner.get(each.id);
    if (!columns.has(key)) columns.set(key, []);
    columns.get(key).push(each);
  }
  const ordered = [...columns.entries()].sort((a, b) => a[0] - b[0]).map(([, of]) => of);
  const readBy = new Map(tables.map(each => [each.id, []]));
  for (const each of tables) for (const id of each.reads) readBy.get(id)?.push(each.id);
  const y = new Map();
  for (const of of ordered) of.forEach((each, n) => y.set(each.id, n * STEP));
  const settle = (of, near) => {
    const wanted = new Map(of.map(each => {
      const ys = near(each).filter(id => y.has(id)).map(id => y.get(id));
      return [each.id, ys.length ? ys.reduce((a, b) => a + b, 0) / ys.length : y.get(each.id)];
    }));
    of.sort((a, b) => wanted.get(a.id) - wanted.get(b.id));
    // As near to where each wants to be as those above and below it let it: a run of those that press is moved as one.
    const runs = [];
    of.forEach((each, n) => {
      runs.push({ sum: wanted.get(each.id) - n * STEP, size: 1 });
      while (runs.length > 1 && runs.at(-2).sum / runs.at(-2).size > runs.at(-1).sum / runs.at(-1).size) {
        const last = runs.pop();
        runs.at(-1).sum += last.sum;
        runs.at(-1).size += last.size;
      }
    });
    let n = 0;
    for (const run of runs) for (let k = 0; k < run.size; k++, n++) y.set(of[n].id, run.sum / run.size + n * STEP);
  };
  for (let turn = 0; turn < 4; turn++) {
    for (const of of ordered.slice(1)) settle(of, each => each.reads);
    for (const of of ordered.slice(0, -1).reverse()) settle(of, each => readBy.get(each.id));
  }
  for (const of of ordered.slice(1)) settle(of, each => each.reads);
  const top = Math.min(...y.values());
  for (const [id, at] of y) y.set(id, Math.round(at - top));
  return { columns: ordered, y, readBy };
}

const lagOf = each => each.retired ? ['retired', 'retired'] : each.lag === null ? ['–', 'how far it is behind is not known']
  : each.lag ? [`${brief(each.lag)} behind`, `${count(each.lag)} rows are not read yet, ${each.behind_s ? 'the oldest for ' + span(each.behind_s) : ''}`] : ['level', 'all was read'];

function card(each) {
  const rows = el('span'), lag = el('span'), made = el('a', { class: 'card', href: to.table(each.id), 'data-id': each.id }, sign(each.verdict), el('b', { title: each.id }, each.name), el('p', null, rows, lag));
  const show = one => {
    const [text, title] = lagOf(one);
    made.classList.remove('good', 'warn', 'bad', 'none');
    made.classList.add(one.tone);
    made.title = [one.id + ': ' + one.verdict, ...one.because, title].join('\n');
    made.querySelector('use').setAttribute('href', '#v-' + one.verdict.replace(/[^a-z]+/g, '-'));
    rows.textContent = one.rows === null ? 'no rows yet' : `${brief(one.rows)} row${one.rows === 1 ? '' : 's'}`;
    lag.textContent = text;
    lag.className = one.lag ? 'late' : '';
  };
  show(each);
  return { made, show };
}

function graph(tables, width) {
  const { columns, y, readBy } = placed(tables);
  const gap = Math.max(34, Math.min(90, width * .037)), wide = Math.max(156, Math.min(250, (width - gap * (columns.length - 1)) / columns.length));
  const x = new Map(), cards = new Map();
  const field = el('div', { class: 'field' }), edges = el('svg:svg', { class: 'edges', 'aria-hidden': 'true' });
  field.append(edges);
  columns.forEach((of, n) => {
    const left = n * (wide + gap), layer = of[0].layer, isFirst = n === 0 || columns[n - 1][0].layer !== layer;
    const total = tables.filter(each => each.layer === layer).length;
    const title = el('h3', null, isFirst ? `${layer} · ${many(total, 'table')}` : '');
    title.style.left = left + 'px';
    field.append(title);
    for (const each of [...of].sort((a, b) => y.get(a.id) - y.get(b.id))) {
      const one = card(each);
      Object.assign(one.made.style, { left: left + 'px', top: HEAD + y.get(each.id) + 'px', width: wide + 'px' });
      x.set(each.id, left);
      cards.set(each.id, one);
      field.append(one.made);
    }
  });
  const lines = [];
  for (const each of tables) for (const id of each.reads) {
    if (!x.has(id)) continue;
    const [x1, y1, x2, y2] = [x.get(id) + wide, HEAD + y.get(id) + CARD / 2, x.get(each.id), HEAD + y.get(each.id) + CARD / 2];
    const bend = Math.max(gap * .6, (x2 - x1) * .45);
    const path = el('svg:path', { d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}` });
    lines.push([id, each.id, path]);
    edges.append(path);
  }
  field.style.height = HEAD + CARD + Math.max(0, ...y.values()) + 4 + 'px';
  field.style.width = columns.length * (wide + gap) - gap + 'px';
  const made = el('div', { class: 'graph' }, field);
  light(made, cards, lines, tables, readBy);
  return { made, cards, columns };
}

// Shows what a table rests on, and what rests on it.
function light(made, cards, lines, tables, readBy) {
  const reads = new Map(tables.map(each => [each.id, each.reads]));
  const closure = (id, next) => {
    const found = new Set([id]);
    for (const each of found) for (const one of next.get(each) || []) found.add(one);
    return found;
  };
  let lit = null;
  const show = target => {
    const id = target?.closest?.('.card')?.dataset.id || null;
    if (id === lit) return;
    lit = id;
    made.classList.toggle('lit', Boolean(id));
    for (const each of made.querySelectorAll('.on')) each.classList.remove('on');
    if (!id) return;
    const below = closure(id, reads), above = closure(id, readBy);
    for (const each of new Set([...below, ...above])) cards.get(each)?.made.classList.add('on');
    for (const [from, into, path] of lines) {
      if ((below.has(from) && below.has(into)) || (above.has(from) && above.has(into))) path.classList.add('on');
    }
  };
  made.addEventListener('mouseover', event => show(event.target));
  made.addEventListener('mouseleave', () => show(document.activeElement));
  made.addEventListener('focusin', event => event.target.matches(':focus-visible') && show(event.target));
  made.addEventListener('focusout', () => show(null));
}

function flow(tables) {
  const cards = new Map(), made = el('div', { class: 'flow' });
  for (const layer of new Set(tables.map(each => each.layer))) {
    const own = tables.filter(each => each.layer === layer);
    made.append(el('h3', null, `${layer} · ${many(own.length, 'table')}`));
    for (const each of own) {
      const one = card(each);
      cards.set(each.id, one);
      made.append(one.made);
    }
  }
  return { made, cards, columns: [tables] };
}

const LISTED = [
  ['table', each => each.id, each => el('a', { href: to.table(each.id) }, named(each.id))],
  ['verdict', each => Object.keys(state.seen.verdicts).indexOf(each.verdict), each => badge(each.verdict)],
  ['rows', each => each.rows ?? -1, each => count(each.rows), true],
  ['behind', each => each.lag ?? -1, each => each.retired ? 'retired' : count(each.lag), true],
  ['held', each => each.held ?? -1, each => each.held === null ? '' : count(each.held), true],
  ['last commit', each => -Date.parse(each.at || 0), each => time(each.at), true],
  ['newest event', each => -Date.parse(each.newest || 0), each => time(each.newest), true],
  ['certificate', each => each.certificate, each => each.certificate === 'none' ? '' : each.certificate],
];

function listed(tables) {
  const body = el('tbody'), [by, way] = state.sort;
  const column = LISTED.find(([name]) => name === by);
  const rows = column ? [...tables].sort((a, b) => (column[1](a) < column[1](b) ? -1 : column[1](a) > column[1](b) ? 1 : 0) * way) : tables;
  for (const each of rows) {
    body.append(el('tr', { 'data-id': each.id }, LISTED.map(([name, , show, isNumber], n) =>
      el(n ? 'td' : 'th', { class: isNumber && 'n', scope: n ? null : 'row', 'data-label': name }, show(each)))));
  }
  const head = LISTED.map(([name, , , isNumber]) => el('th', { scope: 'col', class: isNumber && 'n', 'aria-sort': name === by && (way > 0 ? 'ascending' : 'descending') },
    el('button', { type: 'button', onclick: () => { state.sort = [name, name === by ? -way : 1]; overview(); } }, name)));
  return { made: el('div', { class: 'scroll' }, el('table', { class: 'list' }, el('thead', null, el('tr', null, head)), body)), cards: new Map(), columns: [rows] };
}

const figure = (name, value, more) => el('div', null, el('dt', null, name), el('dd', null, value), el('dd', null, more || ' '));

function glance() {
  const { seen } = state, tables = seen.tables, trusted = tables.filter(each => !['bad'].includes(each.tone));
  const grave = tables.filter(each => each.tone === 'bad'), doubtful = tables.filter(each => each.tone === 'warn');
  const worst = grave[0] || doubtful[0];
  const verdict = seen.is_grave ? 'believed, with warnings' : worst ? worst.verdict : seen.is_well ? 'believed' : 'believed, with warnings';
  const sum = (of, name) => of.reduce((total, each) => total + (each[name] || 0), 0);
  const bronze = tables.filter(each => each.layer === 'bronze'), late = tables.filter(each => each.lag);
  const newest = tables.map(each => each.at).filter(Boolean).sort().at(-1);
  const said = seen.troubles.map(each => el('li', { class: each.grave ? 'bad' : 'warn' }, each.says, each.hint ? [' ', el('small', null, each.hint)] : null));
  const because = [...grave, ...doubtful].slice(0, 5).map(each => el('li', { class: each.tone }, el('a', { href: to.table(each.id) }, each.id), ': ', each.because[0] || each.verdict));
  const left = grave.length + doubtful.length - because.length;
  const icon = sign(verdict);
  icon.setAttribute('class', seen.is_grave ? 'bad' : tone(verdict));
  // The programs may all be well while numbers cannot be trusted: that comes first then.
  const isFirst = seen.is_well && grave.length, sentence = seen.sentence[0].toUpperCase() + seen.sentence.slice(1);
  const headline = isFirst ? `${many(grave.length, 'table')} of ${count(tables.length)} cannot be trusted now` : sentence;
  return [
    el('div', { class: 'glance' }, icon, el('h1', null, headline),
      said.length || because.length ? el('ul', null, isFirst ? el('li', { class: 'soft' }, `The programs: ${seen.sentence}`) : null, said.length > 1 ? said : seen.troubles.filter(each => each.hint).map(each => el('li', null, el('small', null, each.hint))), because, left > 0 ? el('li', null, `and ${many(left, 'table')} more`) : null) : null),
    el('dl', { class: 'figures' },
      figure('Tables to trust', count(trusted.length), `of ${count(tables.length)}`),
      figure('Arrived', brief(sum(bronze, 'read')), 'records'),
      figure('Held back', brief(sum(tables, 'held')), 'rows in quarantine'),
      figure('Behind', late.length ? brief(Math.max(...late.map(each => each.lag))) : '0', late.length ? `rows at most, in ${many(late.length, 'table')}` : 'rows: all tables are level'),
      figure('Last commit', newest ? ago(newest) : 'none', newest ? moment(newest).slice(0, 16) + ' UTC' : 'nothing was written yet'),
      figure('Latest moment', seen.moment ? el('a', { href: to.moments }, ago(seen.moment.at)) : 'none', seen.moment ? `${many(tables.filter(each => each.id in seen.moment.versions).length, 'table')} belong together` : 'none was noted yet')),
    seen.unknown.length ? el('p', { class: 'soft' }, `Not known at the last look: ${seen.unknown.join(', ')}.`) : null,
  ];
}

function overview() {
  const { tables } = state.seen, head = el('div');
  const draw = NARROW.matches ? flow : state.view === 'list' ? listed : graph;
  const drawn = draw(tables, main.clientWidth - parseFloat(getComputedStyle(main).paddingLeft) * 2);
  const knob = name => el('button', { type: 'button', 'aria-pressed': String(state.view === name), onclick: () => { state.view = name; overview(); } }, name);
  const tools = el('div', { class: 'tools' }, el('h2', null, 'Tables'), el('span', { class: 'soft' }, 'what each reads is to its left'), el('div', { class: 'either', role: 'group', 'aria-label': 'Drawn as' }, knob('graph'), knob('list')));
  const renew = () => head.replaceChildren(...glance().filter(Boolean));
  renew();
  main.replaceChildren(head, tools, drawn.made);
  state.columns = drawn.columns;
  state.redraw = () => {
    renew();
    if (draw === listed) {
      const again = listed(state.seen.tables);
      drawn.made.replaceWith(again.made);
      drawn.made = again.made;
    } else for (const each of state.seen.tables) drawn.cards.get(each.id)?.show(each);
    filter();
  };
  filter();
}

function filter() {
  const sought = wordsOf(field.value), isOn = sought.length > 0 && state.route?.page === 'lake';
  main.classList.toggle('sought', isOn && state.seen?.tables.some(each => matches(each, sought)));
  for (const each of main.querySelectorAll('[data-id]')) each.classList.toggle('out', isOn && !matches(state.byId.get(each.dataset.id), sought));
}

// ---- one table -------------------------------------------------------------------------------------------------

const chip = id => {
  const known = state.byId.get(id);
  return known ? el('li', null, el('a', { class: 'chip', href: to.table(id) }, el('span', { class: known.tone }, sign(known.verdict)), named(id))) : el('li', null, el('span', { class: 'chip soft' }, named(id)));
};
const stack = (about, columns, rows, kind) => el('div', { class: 'scroll' }, el('table', { class: 'stack ' + (kind || '') }, about ? el('caption', null, about) : null,
  el('thead', null, el('tr', null, columns.map(([name, isNumber]) => el('th', { scope: 'col', class: isNumber && 'n' }, name)))), el('tbody', null, rows)));
const cell = (label, value, more) => el('td', { 'data-label': label, ...more, class: [more?.class, value === '' || value === null || value === '0' ? 'nil' : ''].join(' ').trim() || null }, value);

// What the latest moment has of a table.
function partOf(id) {
  const latest = state.seen.moment;
  if (!latest) return null;
  const link = el('a', { href: to.moments }, 'latest moment'), version = latest.versions[id];
  if (version !== undefined) return [' In the ', link, ` at version ${count(version)}.`];
  return latest.behind[id] ? [' No part of the ', link, `: ${latest.behind[id]}.`] : null;
}

function tableHead(each) {
  const [late] = lagOf(each), head = [
    el('div', { class: 'title' }, el('h1', null, named(each.id)), badge(each.verdict), each.is_written ? el('span', { class: 'soft' }, 'a process writes it') : null),
    el('p', { class: 'about' }, each.retired ? `Retired by ${each.retired}. ` : '', each.about, each.owner ? ` Owner: ${each.owner}.` : '', partOf(each.id)),
    each.because.length ? el('ul', { class: 'because ' + each.tone }, each.because.map(one => el('li', null, one))) : null,
  ];
  const promise = each.promise && `${span(each.promise.age_s)} old by ${each.promise.by}, ${span(each.promise.within_s)} promised`;
  head.push(el('dl', { class: 'figures' },
    figure('Rows', brief(each.rows), each.version === null ? 'never run' : `in version ${count(each.version)}`),
    figure('Behind', each.lag ? brief(each.lag) : late, each.lag ? (each.behind_s ? `rows, the oldest for ${span(each.behind_s)}` : 'rows') : 'what it reads'),
    figure('Last commit', ago(each.at), each.took_s === null ? '' : `took ${span(each.took_s)}`),
    figure(each.layer === 'bronze' ? 'Newest arrival' : 'Newest event', ago(each.newest), promise || (each.watermark ? `watermark ${ago(each.watermark)}` : '')),
    each.held === null ? null : figure('Held back', brief(each.held), each.read ? `of ${brief(each.read)} read` : ''),
    each.layer === 'bronze' ? null : figure('Certificate', each.certificate.split(';')[0] || 'none', each.certificate.includes(';') ? each.certificate.split(';')[1].trim() : each.certificate === 'none' ? 'never verified' : 'computed again, compared')));
  return head.filter(Boolean);
}

const hops = found => el('div', { class: 'hops' },
  el('ul', { 'aria-label': 'It reads' }, found.topics.map(name => el('li', null, el('span', { class: 'chip soft' }, name))), found.reads.map(chip), found.static.map(chip)),
  el('b', null, found.name), el('ul', { 'aria-label': 'Read by' }, found.read_by.length ? found.read_by.map(chip) : el('li', { class: 'soft' }, 'no table reads it')));

// ---- its commits, drawn

function commits(found) {
  const all = found.history;
  if (!all.length) return section('History', el('p', { class: 'soft' }, 'No commit of it has a ledger entry yet.'));
  const read = el('p', { class: 'read', 'aria-live': 'polite' }), wide = 1000 / all.length, tall = 100;
  const isRepair = each => each.is_repair && !each.read;
  const size = each => isRepair(each) ? each.came + each.gone : each.good + each.copies + each.held + each.skipped;
  const most = Math.max(1, ...all.map(size)), longest = Math.max(.001, ...all.map(each => each.took_s));
  const say = n => {
    const each = all[n];
    for (const mark of marks) mark.setAttribute('x', n * wide);
    for (const mark of marks) mark.removeAttribute('visibility');
    const parts = isRepair(each) ? [`${count(each.came)} rows came, ${count(each.gone)} went`] : [`${count(each.read)} read`, `${count(each.good)} good`, ...(each.copies ? [`${count(each.copies)} copies`] : []), ...(each.held ? [`${count(each.held)} held back`] : []), ...(each.skipped ? [`${count(each.skipped)} passed over`] : [])];
    read.textContent = `version ${each.version}, ${each.mode}: ${parts.join(', ')}, in ${span(each.took_s)}, ${moment(each.at)} UTC`;
  };
  let at = -1;
  const marks = [];
  const plot = (label, shapes) => {
    const mark = el('svg:rect', { class: 'at', y: 0, height: tall, width: Math.max(wide, 2), visibility: 'hidden' });
    marks.push(mark);
    return el('svg:svg', {
      class: 'plot', viewBox: `0 0 1000 ${tall}`, preserveAspectRatio: 'none', role: 'img', tabindex: 0, 'aria-label': label,
      onmousemove: event => { const box = event.currentTarget.getBoundingClientRect(); say(at = Math.max(0, Math.min(all.length - 1, Math.floor((event.clientX - box.left) / box.width * all.length)))); },
      onkeydown: event => {
        const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (!step) return;
        event.preventDefault();
        event.stopPropagation();
        say(at = Math.max(0, Math.min(all.length - 1, at < 0 ? all.length - 1 : at + step)));
      },
    }, shapes, mark);
  };
  const bars = all.flatMap((each, n) => {
    let ground = tall;
    const parts = isRepair(each) ? [['repair', each.came + each.gone]] : [['good', each.good], ['copy', each.copies], ['held', each.held], ['skip', each.skipped]];
    return parts.filter(([, rows]) => rows > 0).map(([kind, rows]) => {
      const high = Math.max(1.5, rows / most * (tall - 4));
      ground -= high;
      return el('svg:rect', { class: kind, x: (n * wide + wide * .1).toFixed(2), y: ground.toFixed(2), width: (wide * .8).toFixed(2), height: high.toFixed(2) });
    });
  });
  const points = all.map((each, n) => `${((n + .5) * wide).toFixed(1)},${(tall - 3 - each.took_s / longest * (tall - 8)).toFixed(1)}`);
  if (points.length === 1) points.push(points[0].replace(/^[^,]+/, '1000'));
  const ends = () => el('div', { class: 'axis' }, el('span', null, moment(all[0].at)), el('span', null, moment(all.at(-1).at)));
  const kinds = [['good', 'good'], ['copy', 'copies', 'copies'], ['held', 'held back', 'held'], ['skip', 'passed over', 'skipped']].filter(([, , name]) => !name || all.some(each => each[name]));
  if (all.some(isRepair)) kinds.push(['repair', 'repairs']);
  return section(['History', el('small', null, all.length === 1 ? 'its only commit' : `its last ${count(all.length)} commits`)],
    el('div', { class: 'plots' },
      el('figure', null, el('figcaption', null, el('b', null, 'Rows of each commit'), el('span', null, `at most ${count(most)}`)), plot('rows of each commit', bars), ends(),
        el('div', { class: 'swatches' }, kinds.map(([kind, name]) => el('span', null, el('i', { class: kind }), name)))),
      el('figure', null, el('figcaption', null, el('b', null, 'Duration of each batch'), el('span', null, `at most ${span(longest)}`)), plot('duration of each batch', [el('svg:polyline', { points: points.join(' ') })]), ends())), read);
}

const section = (title, ...kids) => el('section', null, el('h2', null, title), kids);

// ---- its columns, and where each is from and goes

function schema(found) {
  if (!found.columns.length) return section('Columns', el('p', { class: 'soft' }, 'Spark has not made the table yet.'));
  const place = ([table, column]) => el('a', { href: to.table(table), title: `${table}.${column}` }, nameOf(table), '.', el('b', null, column));
  const own = found.columns.filter(each => !each.name.startsWith('_')), ours = found.columns.filter(each => each.name.startsWith('_'));
  const isLast = !found.columns.some(each => each.goes.length), isFirst = !found.has_lineage || found.layer === 'bronze';
  const heads = [['column'], ['type'], ...(isFirst ? [] : [['comes from']]), ...(isLast ? [] : [['goes to']]), ['what it says of itself']];
  const row = each => el('tr', { class: each.name.startsWith('_') && 'ours' },
    el('th', { scope: 'row' }, named(each.name), each.is_key ? el('span', { title: 'part of the key' }, icon('key'), el('span', { class: 'hidden' }, 'part of the key')) : null, each.is_masked ? el('span', { title: 'masked: no value of it is shown' }, icon('lock'), el('span', { class: 'hidden' }, 'masked')) : null),
    cell('type', each.type),
    isFirst ? null : cell('comes from', each.from.length ? el('span', { class: 'places' }, each.from.map(place)) : ''),
    isLast ? null : cell('goes to', each.goes.length ? el('span', { class: 'places' }, each.goes.map(place)) : ''),
    cell('says', each.about, { class: 'about-it' }));
  const hint = found.layer === 'bronze' || found.has_lineage ? null : el('p', { class: 'soft' }, 'From which columns these come is known once a run in Dagster has derived it.');
  const drawing = strands(found);
  return section(['Columns', el('small', null, `${count(own.length)}, and ${count(ours.length)} of the engine`)], hint, drawing, stack(null, heads, [...own, ...ours].map(row), 'columns'));
}

// The same as a drawing: a strand for each column that another is computed from.
function strands(found) {
  const own = found.columns.filter(each => !each.name.startsWith('_') && (each.from.length || each.goes.length));
  if (!own.length) return null;
  const key = (table, column) => table + ' ' + column, sides = [new Map(), new Map()];
  for (const each of own) [each.from, each.goes].forEach((ends, side) => ends.forEach(([table, column]) => sides[side].set(key(table, column), [table, column])));
  const lists = sides.map(side => [...Map.groupBy(side.values(), ([table]) => table).entries()].flatMap(([table, ends]) => [[table], ...ends]));
  const row = 27, high = Math.max(own.length + 1, ...lists.map(of => of.length)) * row;
  const made = el('div', { class: 'strands' }), edges = el('svg:svg', { class: 'edges', viewBox: `0 0 1000 ${high}`, preserveAspectRatio: 'none', 'aria-hidden': 'true' });
  made.style.height = high + 'px';
  made.append(edges);
  const ys = new Map(), lines = [];
  const put = (node, left, n, name) => {
    Object.assign(node.style, { left, top: n * row + 'px' });
    if (name) ys.set(name, n * row + 12);
    node.dataset.name = name || '';
    made.append(node);
  };
  const top = of => Math.max(0, (high / row - of) / 2);
  lists.forEach((of, side) => of.forEach(([table, column], n) => {
    const left = side ? '72%' : '0';
    if (column === undefined) put(el('a', { class: 'of', href: to.table(table) }, table), left, top(of.length) + n);
    else put(el('span', { class: 'end', title: `${table}.${column}` }, column), left, top(of.length) + n, side + key(table, column));
  }));
  put(el('b', { class: 'of' }, found.id), '36%', top(own.length + 1));
  own.forEach((each, n) => put(el('span', { class: 'end own', title: each.about || each.name }, each.name, each.is_masked ? icon('lock') : null), '36%', top(own.length + 1) + n + 1, 'own' + each.name));
  const strand = (a, b, from, into) => {
    const [y1, y2, bend] = [ys.get(a), ys.get(b), (into - from) * .5];
    const path = el('svg:path', { d: `M${from} ${y1}C${from + bend} ${y1} ${into - bend} ${y2} ${into} ${y2}` });
    lines.push([a, b, path]);
    edges.append(path);
  };
  for (const each of own) {
    for (const [table, column] of each.from) strand('0' + key(table, column), 'own' + each.name, 280, 360);
    for (const [table, column] of each.goes) strand('own' + each.name, '1' + key(table, column), 640, 720);
  }
  made.addEventListener('mouseover', event => {
    const name = event.target.closest('.end')?.dataset.name, on = new Set(name ? [name] : []);
    // From an end to the columns between, and on to what these come from or go to.
    for (const side of [1, 0]) for (const [a, b] of lines) { if (side && on.has(a)) on.add(b); if (!side && on.has(b)) on.add(a); }
    if (name?.startsWith('own')) for (const [a, b] of lines) { if (a === name) on.add(b); if (b === name) on.add(a); }
    made.classList.toggle('lit', Boolean(name));
    for (const [a, b, path] of lines) path.classList.toggle('on', on.has(a) && on.has(b));
    for (const node of made.querySelectorAll('.end')) node.classList.toggle('on', on.has(node.dataset.name));
  });
  made.addEventListener('mouseleave', () => made.classList.remove('lit'));
  return el('div', { 'aria-hidden': 'true', class: 'wide' }, made);
}

function rules(found, broken) {
  if (!found.rules.length) return null;
  const heads = [['rule'], ['holds'], ['when unknown'], ['on failure'], ['severity'], ['broken by', true]];
  return section('Rules', stack(null, heads, found.rules.map(each => el('tr', null, el('th', { scope: 'row' }, named(each.rule)),
    cell('holds', el('code', null, each.holds)), cell('when unknown', each['when unknown']), cell('on failure', each['on failure']), cell('severity', each.severity), cell('broken by', broken[each.rule] ? count(broken[each.rule]) : '', { class: 'n' })))));
}

function certificates(found) {
  if (found.layer === 'bronze') return null;
  if (!found.certificates.length) return section('Certificates', el('p', { class: 'soft' }, 'None yet: ', el('code', null, `strandline verify ${found.id}`), ' computes its rows again from bronze, and compares.'));
  const heads = [['of'], ['result'], ['made'], ['rows', true], ['computed']];
  return section(['Certificates', el('small', null, `worth today: ${found.certificate}`)], stack(null, heads, found.certificates.map(each => el('tr', null,
    el('th', { scope: 'row' }, each.of, each.since ? ` (${moment(each.since)} to ${moment(each.until)})` : ''), cell('result', each.is_equal ? el('span', { class: 'good' }, 'equal') : el('b', { class: 'bad' }, `NOT EQUAL, ${many(each.differences, 'difference')}`)),
    cell('made', time(each.at)), cell('rows', count(each.rows), { class: 'n' }), cell('computed', each.of === 'another engine' ? 'by DuckDB' : `as a batch, and as ${many(each.splits, 'micro-batch').replace(/hs$/, 'hes')} with ${many(each.kills, 'kill')}`)))));
}

function quarantine(held) {
  const total = Object.values(held.counted).reduce((a, b) => a + b, 0);
  if (!total) return section('Quarantine', el('p', { class: 'soft' }, 'Nothing was held back.'));
  const known = held.piles.length ? held.piles : Object.entries(held.counted).map(([reason, rows]) => ({ reason, open: rows, discarded: 0, oldest: null, newest: null }));
  const most = Math.max(1, ...known.map(each => each.open));
  const bar = share => { const made = el('i'); made.style.width = `${share * 100}%`; return el('span', { class: 'meter', 'aria-hidden': 'true' }, made); };
  const rows = known.map(each => el('tr', null, el('th', { scope: 'row' }, named(each.reason)), cell('rows', [bar(each.open / most), count(each.open)], { class: 'n' }),
    cell('discarded', each.discarded ? count(each.discarded) : '', { class: 'n' }), cell('oldest arrival', each.oldest ? time(each.oldest) : '', { class: 'n' }), cell('newest arrival', each.newest ? time(each.newest) : '', { class: 'n' })));
  const heads = [['reason'], [held.piles.length ? 'open rows' : 'rows', true], ['discarded', true], ['oldest arrival', true], ['newest arrival', true]];
  return section(['Quarantine', el('small', null, `${count(total)} rows were held back; a row with several reasons is counted under each`)], stack(null, heads, rows),
    el('div', { class: 'samples' }, held.samples.map(each => {
      const place = `${each.topic}/${each.partition}/${each.offset}`;
      return el('article', { class: 'sample' }, el('p', null, el('a', { href: to.why(place, held.table) }, place), el('span', null, each.reasons.join(', ')), el('span', null, 'arrived ', time(each.arrived_at))), el('pre', null, each.payload));
    })));
}

// What it took, by day; asked again while there is more to count.
function spent(found) {
  const small = 'CPU is that of its own batches; beside is what its runs used between them';
  if (found.days === null) return section('Cost', el('p', { class: 'soft' }, 'Not counted here: on a store each commit is a request. ', el('code', null, `strandline cost ${found.table}`), ' does that.'));
  if (!found.days.length) return section('Cost', el('p', { class: 'soft' }, found.is_whole ? 'No commit of it yesterday or today.' : 'Counting …'));
  const isPriced = found.days.some(each => each.price !== null), isBound = found.days.some(each => each.not_said);
  const heads = [['day, in UTC'], ['commits', true], ['rows read', true], ['rows written', true], ['megabytes', true], ['CPU', true], ['beside', true], ...(isBound ? [['not its own alone', true]] : []), ...(isPriced ? [[`price ${found.currency}`.trim(), true]] : [])];
  const today = new Date(now()).toISOString().slice(0, 10), cpu = value => value ? span(value) : '0';
  const rows = found.days.map(each => el('tr', null, el('th', { scope: 'row' }, each.day, each.day === today ? el('span', { class: 'soft' }, ', until now') : null),
    cell('commits', count(each.commits), { class: 'n' }), cell('rows read', count(each.read), { class: 'n' }), cell('rows written', count(each.written), { class: 'n' }), cell('megabytes', (each.bytes / 1e6).toFixed(each.bytes < 1e7 ? 2 : 0), { class: 'n' }),
    cell('CPU', cpu(each.core_seconds), { class: 'n' }), cell('beside', cpu(each.beside_seconds), { class: 'n' }),
    isBound ? cell('not its own alone', each.not_said ? `at most ${span(each.most_seconds)}` : '', { class: 'n' }) : null,
    isPriced ? cell('price', each.price.toFixed(4), { class: 'n' }) : null));
  return section(['Cost', el('small', null, found.is_whole ? small : 'counting …')], stack(null, heads, rows));
}

async function spentLater(id, route, place) {
  for (let whole = false; !whole;) {
    const found = await ask('cost/' + encodeURIComponent(id)).catch(error => ({ error }));
    if (state.route !== route) return;
    place.replaceChildren(found.error ? section('Cost', failed(found.error)) : spent(found));
    whole = Boolean(found.error) || found.is_whole;
  }
  drawn('cost');
}

// A section of a table's page is a function of what was found, or null; what the quarantine holds comes later, because it is read from rows.
const SECTIONS = [hops, found => found.faults.length ? section('Faults', el('ul', { class: 'because bad' }, found.faults.map(each => el('li', null, each)))) : null, commits, schema];

async function tablePage(id) {
  const route = state.route, known = state.byId.get(id), head = el('div'), body = el('div', null, el('p', { class: 'lead wait' }, 'Reading its log …'));
  const links = ['', 'checks', 'partitions', 'lineage'].map((view, n) => el('a', { href: to.dagster(id, view) }, ['Operate it in Dagster', 'checks', 'days', 'lineage'][n]));
  main.replaceChildren(el('div', { class: 'crumbs' }, el('span', null, el('a', { href: '#/' }, 'All tables'), ' / ', layerOf(id)), known ? el('nav', { 'aria-label': 'In Dagster' }, links) : null), head, body);
  if (known) head.replaceChildren(...tableHead(known));
  state.redraw = () => { const each = state.byId.get(id); if (each) head.replaceChildren(...tableHead(each)); };
  try {
    const found = await ask('table/' + encodeURIComponent(id));
    if (state.route !== route) return;
    head.replaceChildren(...tableHead(state.byId.get(found.id) || found));
    const later = el('div', null, found.has_quarantine ? section('Quarantine', el('p', { class: 'soft' }, 'Reading what is held …')) : null), ruled = el('div', null, rules(found, {}));
    const cost = el('div', null, found.history.length ? section('Cost', el('p', { class: 'soft' }, 'Counting …')) : null);
    body.replaceChildren(...SECTIONS.map(each => each(found)).filter(Boolean), later, certificates(found) || '', cost, ruled);
    drawn('table');
    if (found.history.length) spentLater(id, route, cost);
    if (!found.has_quarantine) return;
    const held = await ask('held/' + encodeURIComponent(id)).catch(error => ({ error }));
    if (state.route !== route) return;
    later.replaceChildren(held.error ? section('Quarantine', failed(held.error)) : quarantine(held));
    if (!held.error) ruled.replaceChildren(rules(found, held.counted) || '');
    drawn('held');
  } catch (error) {
    if (state.route === route) body.replaceChildren(failed(error));
  }
}

// ---- where an event is -------------------------------------------------------------------------------------------

function shown(value, name) {
  if (value === null || value === undefined) return '–';
  if (Array.isArray(value)) {
    if (!value.length) return 'none';
    if (value.every(each => each === null || typeof each !== 'object')) return value.join(', ');
    return el('ol', { class: 'steps' }, value.map(each => el('li', null, each?.table ? step(each) : shown(each))));
  }
  if (typeof value !== 'object') return name === 'table' && state.byId.has(value) ? el('a', { href: to.table(value) }, value) : String(value);
  if (typeof value.text === 'string' && 'bytes' in value) return el('pre', null, value.text);
  return facts(value);
}
const step = each => [el('span', null, state.byId.has(each.table) ? el('a', { href: to.table(each.table) }, each.table) : each.table, each.verdict ? ': ' : '', el('b', null, each.verdict || '')), each.sentence ? el('span', { class: 'soft' }, each.sentence) : null, each.rows?.length ? shown(each.rows) : null];
const facts = evidence => el('dl', { class: 'evidence' }, Object.entries(evidence).filter(([, value]) => value !== null && !(Array.isArray(value) && !value.length)).map(([name, value]) => [el('dt', null, name.replaceAll('_', ' ')), el('dd', null, shown(value, name))]));

async function whyPage(event, table) {
  const route = state.route, body = el('div', null, el('p', { class: 'lead wait' }, 'Looking for it …'));
  main.replaceChildren(el('div', { class: 'crumbs' }, el('span', null, el('a', { href: '#/' }, 'All tables'), ' / where an event is'), table ? el('a', { href: to.why(event) }, 'in any table') : null),
    el('div', { class: 'title' }, el('h1', null, event)), el('p', { class: 'about' }, table ? ['in ', el('a', { href: to.table(table) }, table)] : 'in the tables that judge it'), body);
  state.redraw = null;
  try {
    const found = await ask('why?event=' + encodeURIComponent(event) + (table ? '&in=' + encodeURIComponent(table) : ''));
    if (state.route !== route) return;
    const is = ['in the table', 'duplicate'].includes(found.verdict) ? 'good' : ['unaccounted for', 'dropped by the watermark', 'expired before it was read'].includes(found.verdict) ? 'bad' : 'warn';
    const more = found.verdict === 'unknown' ? el('p', { class: 'soft' }, 'Bronze is not searched record by record here: ', el('code', null, `strandline why ${event}${table ? ' --in ' + table : ''}`), ' does that.') : null;
    body.replaceChildren(el('div', { class: 'answer' }, el('h2', { class: is }, found.verdict), el('p', null, found.table.split(', ').map((id, n) => [n ? ', ' : '', state.byId.has(id) ? el('a', { href: to.table(id) }, id) : id]), ': ', found.sentence, '.'), more),
      section('Evidence', facts(found.evidence)));
    drawn('why');
  } catch (error) {
    if (state.route === route) body.replaceChildren(failed(error));
  }
}

// ---- moments -----------------------------------------------------------------------------------------------------

async function momentsPage() {
  const route = state.route, body = el('div', null, el('p', { class: 'lead wait' }, 'Reading the moments …'));
  main.replaceChildren(el('div', { class: 'crumbs' }, el('span', null, el('a', { href: '#/' }, 'All tables'), ' / moments')),
    el('div', { class: 'title' }, el('h1', null, 'Moments')),
    el('p', { class: 'about' }, 'Versions of all tables that belong together: each has read exactly what those below it have. A question that ends with ', el('code', null, 'AT MOMENT LATEST'), ' is asked of one.'), body);
  state.redraw = null;
  try {
    const found = await ask('moments');
    if (state.route !== route) return;
    body.replaceChildren(kept(found.named), found.latest ? latest(found.latest) : section('The latest', el('p', { class: 'soft' }, 'None was noted yet: ', el('code', null, 'strandline run'), ' does at its end, and a stream as it goes.')));
    drawn('moments');
  } catch (error) {
    if (state.route === route) body.replaceChildren(failed(error));
  }
}

const linked = id => state.byId.has(id) ? el('a', { href: to.table(id) }, named(id)) : named(id);

function latest(found) {
  const behind = Object.entries(found.behind), parts = Object.entries(found.versions), offsets = Object.entries(found.offsets);
  return el('div', null,
    section(['The latest', el('small', null, `${found.number ? `moment ${count(found.number)}, ` : ''}${ago(found.at)}, ${moment(found.at)} UTC${found.by ? ', noted by ' + found.by : ''}`)],
      stack(null, [['table'], ['version', true], ['commits since', true]], parts.map(([id, version]) => el('tr', null, el('th', { scope: 'row' }, linked(id)), cell('version', count(version), { class: 'n' }),
        cell('commits since', state.byId.get(id)?.version > version ? count(state.byId.get(id).version - version) : '', { class: 'n' }))), 'narrow')),
    behind.length ? section(['No part of it', el('small', null, many(behind.length, 'table'))], stack(null, [['table'], ['why']], behind.map(([id, why]) => el('tr', null, el('th', { scope: 'row' }, linked(id)), cell('why', why))))) : null,
    offsets.length ? section(['Up to where bronze has read', el('small', null, many(offsets.length, 'partition'))], stack(null, [['partition'], ['next offset', true]], offsets.map(([part, end]) => el('tr', null, el('th', { scope: 'row' }, named(part)), cell('next offset', count(end), { class: 'n' }))), 'narrow')) : null);
}

function kept(all) {
  if (!all.length) return '';
  const isLess = all.some(each => Object.keys(each.lost).length);
  return section(['Kept under a name', el('small', null, 'their tables stay readable until the date')], stack(null, [['name'], ['of'], ['kept until'], ['tables', true], ...(isLess ? [['kept no more']] : [])], all.map(each => el('tr', null,
    el('th', { scope: 'row' }, each.name), cell('of', `${moment(each.at)} UTC`), cell('kept until', each.until ? `${moment(each.until)} UTC` : 'for ever'), cell('tables', count(Object.keys(each.versions).length), { class: 'n' }),
    isLess ? cell('kept no more', Object.keys(each.lost).join(', ')) : null))));
}

// ---- search ---------------------------------------------------------------------------------------------------

const wordsOf = text => text.trim().toLowerCase().split(/\s+/).filter(Boolean);
const matches = (each, sought) => Boolean(each) && sought.every(word => each.id.toLowerCase().includes(word));
const isEvent = text => /^[^\s/]+\/-?\d+\/\d+(\/\d+)?$/.test(text.trim()) || text.includes(',');

function offers(text) {
  const sought = wordsOf(text), asked = /^(.+?)\s+in\s+(\S+)$/.exec(text.trim());
  if (!sought.length || !state.seen) return [];
  const begins = each => each.name.toLowerCase().startsWith(sought[0]) ? 0 : 1;
  const tables = state.seen.tables.filter(each => matches(each, sought)).sort((a, b) => begins(a) - begins(b)).slice(0, FEW)
    .map(each => ({ href: to.table(each.id), kids: [el('span', { class: each.tone }, sign(each.verdict)), el('span', null, named(each.id)), el('small', null, `${brief(each.rows)} rows`)] }));
  const event = asked && state.byId.has(asked[2]) ? asked[1] : text.trim(), into = asked && state.byId.has(asked[2]) ? asked[2] : null;
  const why = (one, table) => ({ href: to.why(one, table), kids: [el('span', { class: 'ask' }, 'Where is'), el('span', null, one), el('small', null, table ? `in ${table}` : 'in any table')] });
  const here = state.route?.page === 'table' && layerOf(state.route.id) !== 'bronze' ? state.route.id : null;
  const events = into ? [why(event, into)] : [why(event, null), ...(here ? [why(event, here)] : [])];
  return isEvent(text) || into || !tables.length ? [...events, ...tables] : [...tables, ...events];
}

let chosen = 0, offered = [];
function search() {
  offered = offers(field.value);
  chosen = 0;
  list.replaceChildren(...offered.map((each, n) => el('li', { role: 'option', id: 'found-' + n, 'aria-selected': String(n === 0), onmousedown: event => { event.preventDefault(); open(n); } }, each.kids)));
  const isOpen = offered.length > 0 && document.activeElement === field;
  list.hidden = !isOpen;
  field.setAttribute('aria-expanded', String(isOpen));
  isOpen ? field.setAttribute('aria-activedescendant', 'found-0') : field.removeAttribute('aria-activedescendant');
  filter();
  drawn('search');
}
function choose(step) {
  if (!offered.length) return;
  list.children[chosen].setAttribute('aria-selected', 'false');
  chosen = (chosen + step + offered.length) % offered.length;
  list.children[chosen].setAttribute('aria-selected', 'true');
  list.children[chosen].scrollIntoView({ block: 'nearest' });
  field.setAttribute('aria-activedescendant', 'found-' + chosen);
}
function open(n) {
  const { href } = offered[n];
  leave();
  location.hash === href ? show() : location.hash = href;
}
function leave() {
  field.value = '';
  field.blur();
  search();
}
field.addEventListener('input', search);
field.addEventListener('focus', search);
field.addEventListener('blur', () => { list.hidden = true; field.setAttribute('aria-expanded', 'false'); });
field.addEventListener('keydown', event => {
  if (event.key === 'ArrowDown' || event.key === 'ArrowUp') choose(event.key === 'ArrowDown' ? 1 : -1);
  else if (event.key === 'Enter' && offered.length) open(chosen);
  else if (event.key === 'Escape') leave();
  else return;
  event.preventDefault();
  event.stopPropagation();
});

// ---- keys -----------------------------------------------------------------------------------------------------

function walk(key) {
  const cards = new Map([...main.querySelectorAll('.card, tr[data-id]')].filter(each => !(main.classList.contains('sought') && each.classList.contains('out'))).map(each => [each.dataset.id, each]));
  const columns = (state.columns || []).map(of => of.map(each => each.id).filter(id => cards.has(id))).filter(of => of.length);
  if (!columns.length) return false;
  const own = document.activeElement?.closest?.('[data-id]')?.dataset.id;
  const height = id => cards.get(id).getBoundingClientRect().top;
  let at = columns.findIndex(of => of.includes(own)), next;
  if (at < 0) next = columns[0][0];
  else if (key === 'ArrowUp' || key === 'ArrowDown') next = columns[at][columns[at].indexOf(own) + (key === 'ArrowDown' ? 1 : -1)];
  else {
    at += key === 'ArrowRight' ? 1 : -1;
    // Along a line, where there is one; else to the nearest.
    const near = key === 'ArrowRight' ? state.seen.tables.filter(each => each.reads.includes(own)).map(each => each.id) : state.byId.get(own).reads;
    const there = near.filter(id => cards.has(id)), of = there.length ? there : columns[at] || [];
    next = [...of].sort((a, b) => Math.abs(height(a) - height(own)) - Math.abs(height(b) - height(own)))[0];
  }
  const target = next && cards.get(next);
  if (target) (target.matches('tr') ? target.querySelector('a') : target).focus();
  return Boolean(target);
}

document.addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey || $('help').open || event.target === field) return;
  const { key } = event;
  if (key === '/') field.focus();
  else if (key === '?') $('help').showModal();
  else if (key === 'g' || (key === 'Escape' && state.route?.page !== 'lake')) location.hash = '#/';
  else if (key === 'v' && state.route?.page === 'lake' && state.seen) { state.view = state.view === 'graph' ? 'list' : 'graph'; overview(); }
  else if (key.startsWith('Arrow') && state.route?.page === 'lake' && walk(key)) ;
  else return;
  event.preventDefault();
});
$('keys').addEventListener('click', () => $('help').showModal());

// ---- the beginning, and what comes again and again -------------------------------------------------------------------

const drawn = what => requestAnimationFrame(() => requestAnimationFrame(() => performance.mark('drawn ' + what)));

function take(seen) {
  state.seen = seen;
  state.at = performance.now();
  state.byId = new Map(seen.tables.map(each => [each.id, each]));
  words(clear($('lake')), seen.lake);
  $('report').hidden = !seen.report;
  if (seen.report) $('report').href = seen.report;
}
const clear = node => { node.textContent = ''; return node; };

function route() {
  const [page, one, two] = location.hash.replace(/^#\/?/, '').split('/').map(part => { try { return decodeURIComponent(part); } catch { return part; } });
  if (page === 'table' && one) return { page, id: one };
  if (page === 'why' && one) return { page, event: one, table: two || null };
  if (page === 'moments') return { page };
  return { page: 'lake' };
}

function show() {
  if (!state.seen) return;
  state.route = route();
  const { page, id, event, table } = state.route;
  document.title = page === 'table' ? `${id} · ${state.seen.lake}` : page === 'why' ? `${event} · ${state.seen.lake}` : page === 'moments' ? `Moments · ${state.seen.lake}` : `${state.seen.lake}: ${state.seen.sentence}`;
  if (page === 'table') tablePage(id);
  else if (page === 'why') whyPage(event, table);
  else if (page === 'moments') momentsPage();
  else { overview(); drawn('lake'); }
}

async function look() {
  try {
    take(await ask('overview'));
    $('stale').hidden = true;
    if (!state.route) show();
    else state.redraw?.();
  } catch (error) {
    if (!state.seen) return main.replaceChildren(failed(error));
    $('stale').textContent = `No answer: this is the lake as it was at ${moment(state.seen.looked_at)} UTC. ${error.error || 'The server is gone.'}`;
    $('stale').hidden = false;
  }
}

addEventListener('hashchange', () => { show(); scrollTo(0, 0); if (document.activeElement === document.body) main.focus({ preventScroll: true }); });
NARROW.addEventListener('change', show);
let settled;
addEventListener('resize', () => { clearTimeout(settled); settled = setTimeout(() => state.route?.page === 'lake' && state.seen && overview(), 150); });
setInterval(() => document.hidden || look(), EVERY);
document.addEventListener('visibilitychange', () => document.hidden || look());
look();
