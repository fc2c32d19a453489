// Draws plan.html from the data that lies beside this script: tables as elements, the timeline on a canvas.
// The root element tells how it went: data-drawn holds the milliseconds, data-error a message.
'use strict';
(() => {
  const byId = id => document.getElementById(id);
  const began = performance.now();

  function failed(message) {
    document.documentElement.dataset.error = message;
    byId('failure').hidden = false;
    byId('failure').textContent = 'This page could not be drawn: ' + message;
  }
  window.addEventListener('error', event => failed(event.message));

  // ---- Text ----

  // An element with attributes and children; a string child is text and never markup.
  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children.filter(child => child !== null && child !== undefined));
    return made;
  }
  function bytes(value) {
    if (Math.abs(value) < 1000) return value + ' B';
    let unit = 0;
    for (value /= 1000; Math.abs(value) >= 999.95 && unit < 4; ++unit) value /= 1000;
    return value.toFixed(1) + ' ' + ['kB', 'MB', 'GB', 'TB', 'PB'][unit];
  }
  function seconds(value) {
    const size = Math.abs(value);
    if (size === 0) return '0 s';
    if (size >= 100) return value.toFixed(1) + ' s';
    if (size >= 1) return value.toFixed(3) + ' s';
    if (size >= 1e-3) return (value * 1e3).toFixed(size >= 0.1 ? 1 : 2) + ' ms';
    return (value * 1e6).toFixed(1) + ' \u00b5s';
  }
  const percent = (part, whole) => whole > 0 ? (100 * part / whole).toFixed(1) + ' %' : '-';
  const number = value => value.toLocaleString('en', {maximumFractionDigits: value < 100 ? 1 : 0});
  const plural = (count, noun) => count + ' ' + noun + (count === 1 ? '' : 's');

  // A table with a caption, in a box of its own that scrolls where the page is narrow. Columns: [heading, is
  // it a number]; rows: arrays of strings or elements, the first a row heading; a row that is shorter ends with
  // a cell across the columns that are left.
  function table(caption, columns, rows, rowClass = () => '') {
    const wide = columns.length > 6 ? {class: 'wide'} : {};
    const cell = (tag, text, numeric, scope) => {
      const made = element(tag, numeric ? {class: 'number'} : {}, text);
      if (scope) made.setAttribute('scope', scope);
      if (text instanceof Element && text.dataset.meter) made.className = 'meter';
      return made;
    };
    const head = element('tr', {}, ...columns.map(([text, numeric]) => cell('th', text, numeric, 'col')));
    const body = rows.map((row, i) => {
      const cells = row.map((text, c) => cell(c === 0 ? 'th' : 'td', text, columns[c][1], c === 0 ? 'row' : ''));
      if (row.length < columns.length) {
        cells[row.length - 1].colSpan = columns.length - row.length + 1;
        cells[row.length - 1].className = 'rest';
      }
      return element('tr', rowClass(i) ? {class: rowClass(i)} : {}, ...cells);
    });
    return element('div', {class: 'scroll', role: 'region', 'aria-label': caption, tabindex: '0'},
        element('table', wide, element('caption', {}, caption), element('thead', {}, head),
            element('tbody', {}, ...body)));
  }
  function meter(part, whole, colour) {
    const share = whole > 0 ? Math.min(100, 100 * part / whole) : 0;
    return element('div', {'data-meter': '1', 'aria-hidden': 'true',
      style: `width:${share.toFixed(2)}%;background:var(--${colour})`});
  }
  function legend(list, entries) {
    for (const [colour, text] of entries)
      list.append(element('li', {}, element('span', {class: 'swatch', style: `background:var(--${colour})`}), text));
  }

  // ---- Data ----

  const data = JSON.parse(byId('data').textContent);
  const {plan, machine, ops} = data;
  const count = ops.kind.length;
  const compute = data.streams.indexOf('compute');
  const emulated = machine.emulated ? ' (emulated)' : '';

  // What an op is about, for its colour.
  const colourOfKind = {
    Forward: 'forward', DecodeLayer: 'forward', Recompute: 'recompute', Backward: 'backward',
    HeadForwardBackward: 'head', HeadForward: 'head', HeadBackward: 'head', HeadArgMax: 'head', LoadHead: 'weights', LoadWeights: 'weights',
    OffloadBoundary: 'boundaries', FetchBoundary: 'boundaries', GatherEmbedding: 'boundaries',
    OffloadBoundaryGradient: 'gradients', FetchBoundaryGradient: 'gradients', OffloadStash: 'stash',
    FetchStash: 'stash', OffloadGradient: 'gradients', OffloadHeadGradient: 'gradients', OffloadLoss: 'other', Collect: 'other', LoadBatch: 'other',
    ScatterEmbeddingGradient: 'gradients', FinishEmbeddingGradient: 'gradients', SumHeadGradient: 'gradients', ZeroEmbeddingGradient: 'gradients',
    ReduceNorm: 'optimizer', UpdateGroup: 'optimizer', ReadStates: 'disk', WriteStates: 'disk',
    ReadWeights: 'weights', WriteWeights: 'weights', ReadGradient: 'gradients', WriteGradient: 'gradients'};
  const colourTitles = {
    forward: 'forward', recompute: 'recompute', head: 'head', backward: 'backward', weights: 'weights',
    boundaries: 'boundaries', stash: 'stash', gradients: 'gradients', optimizer: 'optimizer',
    disk: 'optimizer states to and from disk', other: 'other'};
  const mixOrder = Object.keys(colourTitles);
  let headSeen = false;
  const colours = ops.kind.map(kind => {
    const name = data.kinds[kind];
    headSeen = headSeen || name === 'HeadForwardBackward' || name === 'HeadForward';
    return name === 'Forward' && headSeen ? 'recompute' : colourOfKind[name] || 'other';
  });
  const sizeOf = i => ops.sizes[ops.bytes[i]];
  function nameOf(i) {
    const parts = [];
    if (ops.layer[i] >= 0) parts.push(ops.layer[i]);
    if (ops.slice[i] >= 0) parts.push('s' + ops.slice[i]);
    if (ops.piece[i] >= 0) parts.push('p' + ops.piece[i]);
    else if (ops.micro_batch[i] >= 0) parts.push('m' + ops.micro_batch[i]);
    return data.kinds[ops.kind[i]] + (parts.length ? '(' + parts.join(', ') + ')' : '');
  }
  function waitsOf(i) {
    const back = ops.after[i];
    return (Array.isArray(back) ? back : back ? [back] : []).map(distance => i - distance);
  }
  // Seconds at which each op starts and ends.
  function timesOf(columns) {
    const before = data.streams.map(() => 0), start = new Float64Array(count), end = new Float64Array(count);
    for (let i = 0; i < count; ++i) {
      const from = before[ops.stream[i]] + columns.gap[i], to = from + columns.length[i];
      before[ops.stream[i]] = to;
      start[i] = from * data.tick_s;
      end[i] = to * data.tick_s;
    }
    return {start, end};
  }
  const runs = [{title: 'simulated', use: data.simulated, ...timesOf(data.simulated)}];
  if (data.measured)
    runs.push({title: 'measured', use: data.measured, ...timesOf(data.measured)});
  const [simulated, measured] = runs;
  const whole = Math.max(...runs.map(run => run.use.step_s));
  const computeOps = [];
  for (let i = 0; i < count; ++i) if (ops.stream[i] === compute) computeOps.push(i);

  // ---- Words and figures ----

  const tokens = plan.slots * plan.slot_tokens;
  function head() {
    byId('about').textContent = `${data.model} \u00b7 ${machine.name}${/emulated/.test(machine.name) ? '' : emulated}`;
    const costs = machine.costs + ' costs' + (machine.costs_of ? ' of ' + machine.costs_of : '');
    const notes = [`Simulated from ${costs}.`];
    if (machine.emulated) notes.push('Device and links are emulated on a CPU.');
    if (!machine.unified && machine.h2d > 0)
      notes.push(`Links: ${machine.h2d} GB/s to the device, ${machine.d2h} GB/s from it` +
                 (machine.duplex > 0 ? `, ${machine.duplex} GB/s together.` : '.'));
    if (machine.disk_read > 0 && data.memory.some(tier => tier.name === 'disk'))
      notes.push(`Disk: reads ${machine.disk_read} GB/s, writes ${machine.disk_write} GB/s.`);
    if (measured) notes.push(`Measured: step ${measured.use.number} of a run.`);
    byId('notes').textContent = notes.join(' ');
    document.title = `Plan of a training step: ${data.model}`;

    const figure = (name, value, note) => byId('figures').append(element('div', {}, element('dt', {}, name),
        element('dd', {}, element('span', {class: 'value'}, value), note ? element('span', {class: 'note'}, note) : null)));
    const step = simulated.use.step_s;
    figure('Step, simulated', seconds(step), plural(plan.slots, 'slot') + ' of ' + plan.slot_tokens + ' tokens');
    if (measured)
      figure('Step, measured', seconds(measured.use.step_s),
          (measured.use.step_s >= step ? '+' : '\u2212') + percent(Math.abs(measured.use.step_s - step), step) + ' against the simulation');
    figure('Tokens per second', step > 0 ? number(tokens / step) : '-',
        measured ? `simulated; measured ${number(tokens / measured.use.step_s)}` : 'simulated');
    figure('Compute stands still', percent(simulated.use.still_s, step), `${seconds(simulated.use.still_s)} a step`);
    for (const tier of data.memory)
      figure(tier.name[0].toUpperCase() + tier.name.slice(1) + (tier.name === 'device' ? emulated : ''), bytes(tier.arena),
          tier.budget > 0 ? `${percent(tier.arena, tier.budget)} of ${bytes(tier.budget)}` : '');
    figure('Policy', plan.policy, plan.variant);
    figure('Micro-batches', String(plan.micro_batches), plural(plan.micro_batch, 'slot') + ' each');
    figure('Optimizer', plan.hidden_updates ? 'hidden' : 'in the open',
        plan.hidden_updates ? 'before the next forward' : 'after the backward');
    if (plan.bound > 0)
      figure('Solver', seconds(plan.objective), `bound ${seconds(plan.bound)}, gap ` +
          percent(plan.objective - plan.bound, plan.objective));
    const cards = byId('figures').children.length;
    byId('figures').style.setProperty('--columns', String(cards > 8 ? Math.ceil(cards / 2) : cards));
    byId('foot').textContent = `All times are simulated unless they are called measured. ${number(count)} operations, ` +
        'every one in the timeline. 1 GB = 1,000,000,000 bytes. This page loads nothing.';
  }

  // ---- Where the time goes ----

  function time() {
    for (const run of runs) {
      const parts = run.use.parts.filter(part => part.seconds > 0)
                        .concat({name: 'standing still', seconds: run.use.still_s});
      const words = parts.map(part => `${part.name} ${percent(part.seconds, run.use.step_s)}`).join(', ');
      const spans = parts.map(part => element('span', {
        style: `width:${100 * part.seconds / run.use.step_s}%;background:var(--${part.name === 'standing still' ? 'still' : part.name})`,
        title: `${part.name}: ${seconds(part.seconds)}`, class: part.name.replace(' ', '-')},
        part.seconds / run.use.step_s * byId('time-bars').clientWidth > 8 + 7 * part.name.length ? part.name : ''));
      byId('time-bars').append(element('h3', {}, `Compute stream, ${run.title}`),
          element('div', {class: 'bar', role: 'img', 'aria-label': words}, ...spans));
    }
    const columns = (...names) => names.flatMap(name => measured ?
        [[name + ', simulated', true], [name + ', measured', true]] : [[name, true]]);
    const both = get => runs.map(run => get(run.use));

    const partNames = simulated.use.parts.map(part => part.name)
        .filter(name => runs.some(run => run.use.parts.some(part => part.name === name && part.seconds > 0)));
    const rows = partNames.map(name => [name,
      ...both(use => seconds(use.parts.find(part => part.name === name).seconds)),
      ...both(use => percent(use.parts.find(part => part.name === name).seconds, use.step_s))]);
    rows.push(['standing still', ...both(use => seconds(use.still_s)), ...both(use => percent(use.still_s, use.step_s))]);
    rows.push(['step', ...both(use => seconds(use.step_s)), ...both(() => '100 %')]);
    byId('parts').append(table('Compute', [['part', false], ...columns('time', 'of the step')], rows));
    const slowed = simulated.use.parts.reduce((sum, part) => sum + part.seconds, 0) - simulated.use.compute_alone_s;
    if (slowed > 0.001 * simulated.use.step_s)
      byId('parts').append(element('p', {class: 'note'}, `In the simulation compute loses ${seconds(slowed)} to copies and ` +
          'updates that use the same cores; it is in the times above.'));

    const kinds = [...new Set(runs.flatMap(run => run.use.standstills.map(entry => entry.kind)))];
    const still = (use, kind) => use.standstills.find(entry => entry.kind === kind) || {seconds: 0, times: 0};
    byId('standstills').append(kinds.length === 0 ? element('p', {}, 'Compute never stands still.') :
        table('What compute waits for', [['operation', false], ...columns('time', 'times')],
            kinds.map(kind => [kind || 'nothing (hand-over between streams)',
              ...both(use => seconds(still(use, kind).seconds)), ...both(use => String(still(use, kind).times))])));

    const isLink = stream => !['compute', 'host'].includes(data.streams[stream]);
    const streamRows = simulated.use.streams.map(entry => {
      const of = use => use.streams.find(other => other.stream === entry.stream);
      return [data.streams[entry.stream], meter(entry.busy_s, simulated.use.step_s, 'accent'),
        ...both(use => percent(of(use).busy_s, use.step_s)), ...both(use => seconds(of(use).busy_s)),
        number(entry.ops), entry.bytes && isLink(entry.stream) ? bytes(entry.bytes) : '-',
        ...both(use => isLink(entry.stream) && of(use).bytes && of(use).busy_s > 0 ? (of(use).bytes / of(use).busy_s / 1e9).toFixed(2) + ' GB/s' : '-')];
    });
    byId('streams').append(table('Streams', [['stream', false], ['busy part of the step', false],
      ...columns('busy', 'time'), ['operations', true], ['bytes moved', true], ...columns('rate while busy')], streamRows));
  }

  // ---- Layers ----

  const tierNames = machine.unified ? ['memory', 'memory', 'disk'] : ['device', 'host', 'disk'];
  const tierColours = ['on-device', 'on-host', 'on-disk'];
  function sharesText(shares) {
    const all = shares.reduce((a, b) => a + b, 0);
    if (all === 0) return '-';
    return shares.map((part, tier) => part === all ? tierNames[tier] : part > 0 ? `${tierNames[tier]} ${part}/${all}` : '')
               .filter(text => text).join(', ');
  }

  function stashText(layer) {
    return sharesText(layer.stash_on) + (layer.swept && layer.stash !== 'none' ? ', from the sweep on' : '');
  }
  // One row of the strip: for each layer a stack of [part, colour] from the bottom, and a text.
  function strip(name, summary, stacks, texts, tall) {
    const space = 'http://www.w3.org/2000/svg';
    const svg = document.createElementNS(space, 'svg');
    const layers = stacks.length, gap = layers > 200 ? 0 : Math.min(0.1, layers * 0.0016);
    svg.setAttribute('viewBox', `0 0 ${layers} 1`);
    svg.setAttribute('preserveAspectRatio', 'none');
    svg.setAttribute('role', 'img');
    svg.setAttribute('aria-label', `${name}: ${summary}`);
    if (tall) svg.setAttribute('class', 'tall');
    stacks.forEach((stack, l) => {
      const group = document.createElementNS(space, 'g');
      const title = document.createElementNS(space, 'title');
      title.textContent = `layer ${l}: ${texts[l]}`;
      group.append(title);
      let top = 1;
      for (const [part, colour] of stack) {
        const rect = document.createElementNS(space, 'rect');
        top -= part;
        for (const [key, value] of Object.entries({x: l + gap / 2, y: top, width: 1 - gap, height: part}))
          rect.setAttribute(key, value.toFixed(4));
        rect.setAttribute('style', `fill:var(--${colour})`);
        group.append(rect);
      }
      svg.append(group);
    });
    byId('strip').append(element('div', {class: 'row'},
        element('div', {class: 'name'}, name, ' ', element('span', {}, summary)), svg));
  }
  function layers() {
    const list = data.layers, all = list.length;
    const shareStack = shares => {
      const sum = shares.reduce((a, b) => a + b, 0);
      return sum === 0 ? [[1, 'nowhere']] :
          shares.map((part, tier) => [part / sum, tierColours[tier]]).filter(([part]) => part > 0);
    };
    const total = key => {
      const sums = [0, 1, 2].map(tier => list.reduce((sum, layer) => sum + layer[key][tier], 0));
      const sum = sums.reduce((a, b) => a + b, 0);
      return sums.map((part, tier) => part > 0 ? `${tierNames[tier]} ${percent(part, sum)}` : '').filter(text => text).join(', ');
    };
    const kept = list.filter(layer => layer.kept).length;
    strip('Boundary that enters the layer', `kept of ${kept} of ${all}: ${total('boundary')}`,
        list.map(layer => shareStack(layer.boundary)),
        list.map(layer => layer.kept ? sharesText(layer.boundary) : 'computed again'));
    const levels = ['none', 'attention', 'mlp', 'all'];
    const levelCount = levels.map(level => list.filter(layer => layer.stash === level).length);
    strip('Stash level', levels.map((level, i) => levelCount[i] ? `${level} ${levelCount[i]}` : '').filter(text => text).join(', '),
        list.map(layer => [[1, layer.stash === 'none' ? 'nowhere' : 'level-' + layer.stash]]), list.map(layer => layer.stash));
    if (levelCount[0] < all)
      strip('Stash', total('stash_on'), list.map(layer => shareStack(layer.stash_on)), list.map(stashText));
    for (const [key, name] of [['weights', 'Weights'], ['gradient', 'Gradient'], ['states', 'Optimizer states']]) {
      const counts = [0, 1, 2].map(tier => list.filter(layer => layer[key] === tier).length);
      strip(name, counts.map((layers, tier) => layers ? `${tierNames[tier]} ${layers}` : '').filter(text => text).join(', '),
          list.map(layer => [[1, tierColours[layer[key]]]]), list.map(layer => tierNames[layer[key]]));
    }
    const times = simulated.use.layers;
    const most = Math.max(...times.map(([f, r, b]) => f + r + b), 1e-12);
    const sum = part => times.reduce((total, layer) => total + layer[part], 0);
    strip('Compute time, simulated', `forward ${seconds(sum(0))}, recompute ${seconds(sum(1))}, backward ${seconds(sum(2))}`,
        times.map(layer => layer.map((part, i) => [part / most, ['forward', 'recompute', 'backward'][i]])),
        times.map(([f, r, b]) => `forward ${seconds(f)}, recompute ${seconds(r)}, backward ${seconds(b)}`), true);
    const entries = machine.unified ? [['on-device', 'memory']] : [['on-device', 'device' + emulated], ['on-host', 'host']];
    entries.push(['on-disk', 'disk'], ['nowhere', 'not kept'], ['level-attention', 'stash: attention'],
        ['level-mlp', 'stash: mlp'], ['level-all', 'stash: all']);
    legend(byId('homes'), entries);
    byId('layers').append(table('Layers', [['layer', true], ['boundary', false], ['stash', false], ['stash kept on', false],
      ['weights', false], ['gradient', false], ['optimizer states', false], ['forward', true], ['recompute', true], ['backward', true]],
      list.map((layer, l) => [String(l), layer.kept ? sharesText(layer.boundary) : 'computed again', layer.stash,
        stashText(layer), tierNames[layer.weights], tierNames[layer.gradient], tierNames[layer.states],
        ...times[l].map(seconds)])));
  }

  // ---- Memory and policies ----

  function memory() {
    for (const tier of data.memory) {
      const budget = tier.budget > 0 ? ` of ${bytes(tier.budget)}` : '';
      const title = tier.name[0].toUpperCase() + tier.name.slice(1) + (tier.name === 'device' ? emulated : '');
      byId('memory').append(table(`${title}: ${bytes(tier.arena)}${budget}`, [['what', false], ['bytes', true], ['share', false]],
          tier.items.map(([what, size]) => [what, bytes(size), meter(size, tier.arena, 'accent')])));
    }
  }
  function policies() {
    const unified = machine.unified;
    if (data.policies.length === 0) return byId('policies').append(element('p', {}, 'The plan was given.'));
    byId('policies').append(table('Candidates' + (machine.emulated ? ' (device and links emulated)' : '') + ', times simulated',
        [['policy', false], ['variant', false], ['micro-batch', true], ['updates', false], [unified ? 'memory' : 'device', true],
          ...(unified ? [] : [['host', true]]), ['step', true], ['recompute', true], ['exposed', true], ['tokens/s', true]],
        data.policies.map(row => [row.policy + (row.chosen ? ' (chosen)' : ''), row.variant, String(row.micro_batch),
          row.hidden_updates ? 'hidden' : 'after backward',
          row.device ? bytes(row.device) : '-', ...(unified ? [] : [row.host ? bytes(row.host) : '-']),
          ...(row.fits ? [seconds(row.step_s), seconds(row.recompute_s), seconds(row.exposed_s), number(row.tokens_per_s)] :
            [row.why_not])]),
        i => data.policies[i].chosen ? 'chosen' : ''));
  }

  // ---- Timeline ----

  const box = byId('timeline'), canvas = byId('canvas');
  let pen = canvas.getContext('2d');
  const sizes = {axis: 22, caption: 17, lane: 26, gap: 5, title: 26, memory: 62, narrow: 3, column: 2};
  const paperWidth = 1000;
  let zoom = 1, picked = null, printing = false, scheduled = false;

  // Lanes from top to bottom: the streams of each run, then the memory of each tier.
  const lanes = [];
  let height = sizes.axis;
  for (const run of runs) {
    if (measured) {
      lanes.push({kind: 'title', text: run === measured ? `Measured, step ${run.use.number}` : 'Simulated', top: height});
      height += sizes.title;
    }
    for (const entry of run.use.streams) {
      const list = [];
      for (let i = 0; i < count; ++i) if (ops.stream[i] === entry.stream) list.push(i);
      lanes.push({kind: 'stream', run, list, text: data.streams[entry.stream],
        note: `busy ${percent(entry.busy_s, run.use.step_s)}`, top: height});
      height += sizes.caption + sizes.lane + sizes.gap;
    }
  }
  // Bytes of a tier belong to places in the list of ops. Each compute op stands for the ops since the one
  // before, with the most that any of them saw, at the time at which it starts.
  for (const tier of data.memory) {
    const points = [];
    let op = 0, held = 0, next = 0, most = 0;
    for (const i of computeOps.concat(count)) {
      while (next < tier.op.length && op + tier.op[next] <= Math.min(i, count - 1)) {
        op += tier.op[next];
        held += tier.bytes[next++];
        most = Math.max(most, held);
      }
      points.push({time: i < count ? simulated.start[i] : simulated.end[computeOps[computeOps.length - 1]] || 0, bytes: most});
      most = held;
    }
    const changing = tier.op.length > 1;
    lanes.push({kind: 'memory', tier, points, peak: points.reduce((a, b) => Math.max(a, b.bytes), 0),
      top: height, height: changing ? sizes.memory : sizes.lane});
    height += sizes.caption + (changing ? sizes.memory : sizes.lane) + sizes.gap + 3;
  }
  height += 2;

  // Pixels of the canvas to seconds and back; the canvas shows [scrollLeft, scrollLeft + width]. Asking the
  // browser for sizes is slow, so look() does it once.
  const view = {width: 0, shift: 0};
  function look() {
    view.width = printing ? paperWidth : box.clientWidth;
    view.shift = printing ? 0 : box.scrollLeft;
  }
  const width = () => view.width;
  const scale = () => (view.width * zoom - 2) / whole;
  const shift = () => view.shift;
  const xOf = second => 1 + second * scale() - shift();
  const secondOf = x => (x - 1 + shift()) / scale();

  function firstEndingAfter(lane, second) {
    let low = 0, high = lane.list.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (lane.run.end[lane.list[middle]] > second) high = middle; else low = middle + 1;
    }
    return low;
  }
  function palette() {
    const style = getComputedStyle(document.documentElement), known = {};
    return name => known[name] || (known[name] = style.getPropertyValue('--' + name).trim());
  }
  function axis(colour) {
    const raw = width() / scale() / Math.max(2, width() / 130);
    const power = 10 ** Math.floor(Math.log10(raw));
    const gap = [1, 2, 5, 10].map(factor => factor * power).find(candidate => candidate >= raw);
    const digits = Math.max(0, -Math.floor(Math.log10(gap * 1.001)));
    const [unit, factor, lost] = gap >= 0.1 ? ['s', 1, 0] : gap >= 1e-4 ? ['ms', 1e3, 3] : ['\u00b5s', 1e6, 6];
    pen.font = '11px system-ui, sans-serif';
    pen.textBaseline = 'middle';
    for (let k = Math.max(0, Math.ceil(secondOf(0) / gap)); k * gap <= Math.min(whole, secondOf(width())); ++k) {
      const x = xOf(k * gap);
      pen.fillStyle = colour('line');
      pen.fillRect(Math.round(x), sizes.axis - 4, 1, height);
      pen.fillStyle = colour('soft');
      const text = (k * gap * factor).toFixed(Math.max(0, digits - lost)) + ' ' + unit;
      if (x + pen.measureText(text).width < width() - 2) pen.fillText(text, x + 3, 9);
    }
  }
  function caption(colour, y, text, note) {
    pen.font = '600 12px system-ui, sans-serif';
    pen.textBaseline = 'middle';
    const wide = pen.measureText(text).width;
    pen.font = '12px system-ui, sans-serif';
    pen.fillStyle = colour('page');
    pen.fillRect(2, y + 1, wide + pen.measureText(note).width + 14, sizes.caption - 2);
    pen.fillStyle = colour('soft');
    pen.fillText(note, 12 + wide, y + sizes.caption / 2 + 1);
    pen.font = '600 12px system-ui, sans-serif';
    pen.fillStyle = colour('ink');
    pen.fillText(text, 4, y + sizes.caption / 2 + 1);
  }
  function heading(colour, lane) {
    pen.font = '600 14px system-ui, sans-serif';
    pen.textBaseline = 'middle';
    pen.fillStyle = colour('page');
    pen.fillRect(2, lane.top + 4, pen.measureText(lane.text).width + 6, sizes.title - 6);
    pen.fillStyle = colour('accent');
    pen.fillText(lane.text, 4, lane.top + sizes.title / 2 + 2);
  }
  // Blocks that are too narrow to be seen share columns: the colours are stacked by their part of the column's
  // time, and what stays empty is idle. `columns`: pixels of each colour by number of the column.
  function mix(columns, name, x, x1) {
    for (let column = Math.floor(x / sizes.column); column * sizes.column < x1 || column * sizes.column <= x; ++column) {
      const inside = Math.min(x1, (column + 1) * sizes.column) - Math.max(x, column * sizes.column);
      if (!columns.has(column)) columns.set(column, {});
      const parts = columns.get(column);
      parts[name] = (parts[name] || 0) + Math.max(inside, 1e-9);
    }
  }
  function drawStream(lane, colour) {
    const {start, end} = lane.run, top = lane.top + sizes.caption, list = lane.list, right = width();
    pen.fillStyle = colour('panel');
    pen.fillRect(0, top, width(), sizes.lane);
    const labels = [], columns = new Map();
    for (let k = firstEndingAfter(lane, secondOf(0)); k < list.length; ++k) {
      const name = colours[list[k]], x = xOf(start[list[k]]), x1 = xOf(end[list[k]]);
      if (x > right) break;
      if (x1 - x < sizes.narrow) {
        mix(columns, name, x + shift(), x1 + shift());
        continue;
      }
      pen.fillStyle = colour(name);
      pen.fillRect(x, top, x1 - x - 0.7, sizes.lane);
      if (x1 - x > 22) labels.push([k, x, x1]);
    }
    for (const [column, parts] of columns) {
      let base = top + sizes.lane;
      for (const name of mixOrder) {
        if (!parts[name]) continue;
        const high = Math.max(2, parts[name] / sizes.column * sizes.lane);
        pen.fillStyle = colour(name);
        pen.fillRect(column * sizes.column - shift(), Math.max(top, base - high), sizes.column, Math.min(high, base - top));
        base -= high;
      }
    }
    pen.font = '11px system-ui, sans-serif';
    pen.textBaseline = 'middle';
    for (const [k, x, x1] of labels) {
      const i = list[k], left = Math.max(x, 0) + 4, space = Math.min(x1, right) - left - 3;
      const short = nameOf(i).replace(/^.*\(/, '').replace(')', '');
      const text = [nameOf(i), short].find(option => pen.measureText(option).width <= space);
      pen.fillStyle = colours[i] === 'recompute' ? colour('recompute-ink') : colours[i] === 'boundaries' ? '#1a2027' : '#ffffff';
      if (text) pen.fillText(text, left, top + sizes.lane / 2 + 0.5);
    }
    caption(colour, lane.top, lane.text, lane.note);
  }
  function drawMemory(lane, colour) {
    const {tier, points} = lane, top = lane.top + sizes.caption, base = top + lane.height;
    const near = tier.budget > 0 && tier.budget <= 1.6 * tier.arena;
    const most = (near ? Math.max(tier.budget, tier.arena) : tier.arena) * 1.06 || 1;
    const yOf = size => base - size / most * lane.height;
    pen.fillStyle = colour('panel');
    pen.fillRect(0, top, width(), lane.height);
    pen.fillStyle = colour(tier.name === 'host' ? 'on-host' : tier.name === 'disk' ? 'on-disk' : 'on-device');
    pen.globalAlpha = 0.55;
    // One column of at least a pixel at a time, as high as the most that falls into it.
    let x = xOf(0), high = points.length ? points[0].bytes : 0;
    for (let k = 0; k < points.length; ++k) {
      const next = k + 1 < points.length ? xOf(points[k + 1].time) : xOf(simulated.use.step_s);
      high = Math.max(high, points[k].bytes);
      if (next - x < 1 && k + 1 < points.length) continue;
      const left = Math.round(Math.max(x, 0)), edge = Math.round(Math.min(next, width()));
      if (edge > left) pen.fillRect(left, yOf(high), edge - left, base - yOf(high));
      x = Math.max(x, next);
      high = 0;
    }
    pen.globalAlpha = 1;
    const line = (size, name, dashes) => {
      pen.strokeStyle = colour(name);
      pen.setLineDash(dashes);
      pen.beginPath();
      pen.moveTo(0, Math.round(yOf(size)) + 0.5);
      pen.lineTo(width(), Math.round(yOf(size)) + 0.5);
      pen.stroke();
      pen.setLineDash([]);
    };
    line(tier.arena, 'ink', [2, 3]);
    if (near) line(tier.budget, 'gradients', []);
    caption(colour, lane.top, tier.name + (tier.name === 'device' ? emulated : ''),
        `planned ${bytes(tier.arena)}` + (tier.budget > 0 ? ` of ${bytes(tier.budget)}` : '') +
        (measured ? ', simulated' : ''));
  }
  function outline(lane, i, colour, thick) {
    const x = xOf(lane.run.start[i]), x1 = Math.max(x + 2, xOf(lane.run.end[i]));
    if (x1 < -4 || x > width() + 4) return;
    pen.strokeStyle = colour;
    pen.lineWidth = thick;
    pen.strokeRect(x - 0.5, lane.top + sizes.caption - 0.5, x1 - x, sizes.lane + 1);
    pen.lineWidth = 1;
  }

  // Everything that is in view, onto `target`.
  function paint(target, dots) {
    look();
    target.width = Math.round(width() * dots);
    target.height = Math.round(height * dots);
    pen = target.getContext('2d');
    pen.setTransform(dots, 0, 0, dots, 0, 0);
    const colour = palette();
    pen.fillStyle = colour('page');
    pen.fillRect(0, 0, width(), height);
    axis(colour);
    for (const lane of lanes) {
      if (lane.kind === 'stream') drawStream(lane, colour);
      else if (lane.kind === 'memory') drawMemory(lane, colour);
      else heading(colour, lane);
    }
    if (picked === null || printing) return;
    for (const wait of waitsOf(picked.op)) {
      const lane = lanes.find(other => other.run === picked.lane.run && other.list && ops.stream[other.list[0]] === ops.stream[wait]);
      if (lane) outline(lane, wait, colour('ink'), 1.5);
    }
    outline(picked.lane, picked.op, colour('ink'), 3);
  }
  function draw() {
    look();
    byId('timeline-width').style.width = Math.round(width() * zoom) + 'px';
    canvas.style.width = width() + 'px';
    canvas.style.height = height + 'px';
    paint(canvas, Math.max(1, window.devicePixelRatio || 1));
    byId('zoom-window').textContent = zoom > 1 ?
        `${seconds(Math.max(0, secondOf(0)))} to ${seconds(Math.min(whole, secondOf(width())))}` : '';
  }
  // Paper is light and shows the whole step: a picture made beforehand, since browsers do not agree on when a
  // canvas may still be drawn for the printer.
  function paper() {
    const sheet = document.createElement('canvas'), zoomed = zoom;
    document.documentElement.dataset.printing = '';
    [printing, zoom] = [true, 1];
    paint(sheet, 2);
    [printing, zoom] = [false, zoomed];
    delete document.documentElement.dataset.printing;
    byId('paper').src = sheet.toDataURL();
    byId('paper').alt = canvas.getAttribute('aria-label');
  }
  function soon() {
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(() => { scheduled = false; draw(); });
  }

  // What a person wants to know of an op: when, how long, how fast, and why not sooner.
  function describe(lane, i) {
    const {start, end} = lane.run, length = end[i] - start[i], k = lane.list.indexOf(i);
    const parts = [element('b', {}, nameOf(i)), ` on ${lane.text}, ${lane.run.title}: ${seconds(start[i])} to ${seconds(end[i])}, ${seconds(length)}`];
    if (sizeOf(i) > 0) parts.push(`; ${bytes(sizeOf(i))}` + (length > 0 ? ` at ${(sizeOf(i) / length / 1e9).toFixed(2)} GB/s` : ''));
    const free = k > 0 ? end[lane.list[k - 1]] : 0, waits = waitsOf(i);
    if (start[i] - free > 1e-6 * whole) {
      const late = waits.filter(wait => end[wait] > free).sort((a, b) => end[b] - end[a])[0];
      parts.push(`. Before it the stream stood still for ${seconds(start[i] - free)}` +
          (late === undefined ? '' : `, until ${nameOf(late)} on ${data.streams[ops.stream[late]]} had ended`));
    }
    if (waits.length) parts.push(`. It waits for ${waits.map(wait => `${nameOf(wait)} (${data.streams[ops.stream[wait]]})`).join(', ')}`);
    parts.push(`. Operation ${i} of ${number(count)}.`);
    byId('operation').replaceChildren(...parts);
  }
  function pick(lane, i) {
    picked = {lane, op: i};
    describe(lane, i);
    soon();
  }
  function pointed(event) {
    look();
    const rect = canvas.getBoundingClientRect(), x = event.clientX - rect.left, y = event.clientY - rect.top;
    const lane = lanes.find(other => other.kind !== 'title' && y >= other.top &&
        y < other.top + sizes.caption + (other.height || sizes.lane) + sizes.gap);
    if (!lane) return;
    const second = secondOf(x);
    if (lane.kind === 'memory') {
      const after = lane.points.findIndex(point => point.time > second);
      const point = lane.points[Math.max(0, (after < 0 ? lane.points.length : after) - 1)];
      byId('operation').textContent = `${lane.tier.name} at ${seconds(second)}: ${bytes(point.bytes)} in use` +
          ` of ${bytes(lane.tier.arena)} planned; ${bytes(lane.peak)} at the fullest, the rest is alignment and gaps.`;
      return;
    }
    // The op under the finger, or the nearest within a few pixels.
    const at = firstEndingAfter(lane, second);
    const near = [at, at - 1].filter(k => k >= 0 && k < lane.list.length).map(k => lane.list[k])
        .map(i => [i, Math.max(lane.run.start[i] - second, second - lane.run.end[i], 0) * scale()])
        .sort((a, b) => a[1] - b[1])[0];
    if (near && near[1] < 12) pick(lane, near[0]);
  }
  // Zooms so that the second under pixel x of the canvas stays there.
  function zoomTo(wanted, x = width() / 2) {
    look();
    const second = secondOf(x);
    zoom = Math.min(Math.max(1, wanted), Math.max(1, 4e6 / width()));
    byId('timeline-width').style.width = Math.round(width() * zoom) + 'px';
    box.scrollLeft = 1 + second * scale() - x;
    soon();
  }
  function show(lane, i) {
    look();
    const x = xOf(lane.run.start[i]), x1 = xOf(lane.run.end[i]);
    if (x < 0 || x1 > width()) box.scrollLeft += (x + x1) / 2 - width() / 2;
    pick(lane, i);
  }
  function key(event) {
    const streams = lanes.filter(lane => lane.kind === 'stream');
    if (event.key === '+' || event.key === '=') zoomTo(zoom * 2);
    else if (event.key === '-') zoomTo(zoom / 2);
    else if (event.key === '0') zoomTo(1);
    else if (event.key.startsWith('Arrow')) {
      const lane = picked ? picked.lane : streams[0];
      let target = lane, k = picked ? lane.list.indexOf(picked.op) : -1;
      if (event.key === 'ArrowRight') k = Math.min(k + 1, lane.list.length - 1);
      if (event.key === 'ArrowLeft') k = Math.max(k - 1, 0);
      if (event.key === 'ArrowUp' || event.key === 'ArrowDown') {
        const other = streams.indexOf(lane) + (event.key === 'ArrowUp' ? -1 : 1);
        target = streams[Math.min(Math.max(other, 0), streams.length - 1)];
        k = Math.min(firstEndingAfter(target, picked ? lane.run.start[picked.op] : 0), target.list.length - 1);
      }
      show(target, target.list[Math.max(k, 0)]);
    } else {
      return;
    }
    event.preventDefault();
  }
  function timeline() {
    const words = simulated.use.streams.map(use => `${data.streams[use.stream]} busy ${percent(use.busy_s, simulated.use.step_s)}`);
    canvas.setAttribute('aria-label', `Timeline of ${seconds(whole)}: ${words.join(', ')}. The tables below say the same in figures.`);
    const used = Object.entries(colourTitles).filter(([name]) => colours.includes(name));
    legend(byId('kinds'), used);
    byId('operation').textContent = 'Nothing is selected.';
    draw();
    box.addEventListener('scroll', soon, {passive: true});
    canvas.addEventListener('pointermove', event => { if (event.pointerType === 'mouse') pointed(event); });
    canvas.addEventListener('click', pointed);
    canvas.addEventListener('dblclick', event => zoomTo(zoom * 4, event.offsetX));
    canvas.addEventListener('wheel', event => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoomTo(zoom * (event.deltaY < 0 ? 1.5 : 1 / 1.5), event.offsetX);
    }, {passive: false});
    box.addEventListener('keydown', key);
    byId('zoom-in').addEventListener('click', () => zoomTo(zoom * 2));
    byId('zoom-out').addEventListener('click', () => zoomTo(zoom / 2));
    byId('zoom-fit').addEventListener('click', () => zoomTo(1));
    window.addEventListener('resize', () => zoomTo(zoom));
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', soon);
    setTimeout(paper, 0);
  }

  try {
    head();
    time();
    layers();
    memory();
    policies();
    timeline();
    document.documentElement.dataset.drawn = (performance.now() - began).toFixed(0);
  } catch (error) {
    failed(error.message);
    throw error;
  }
})();
