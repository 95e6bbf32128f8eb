// Charts of the last 60 seconds.

const chartHeight = 100;
const headroom = 1.15; // the top of the scale, divided by the limit; above 1, so that the line at the limit is visible

function shape(tag, attributes) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

/**
 * A chart with one bar per second and a line at the limit. The caption describes
 * the chart in words, and the table under the charts has all figures.
 */
class Chart {
  #bars; #line; #sum; #limit;

  constructor(name, seconds, small = false) {
    this.#bars = Array.from({ length: seconds }, (_, i) => shape('rect', { x: i + 0.1, width: 0.8, y: chartHeight, height: 0 }));
    this.#bars.at(-1).classList.add('now');
    this.#line = shape('line', { x1: 0, x2: seconds });
    const drawing = shape('svg', { viewBox: `0 0 ${seconds} ${chartHeight}`, preserveAspectRatio: 'none', 'aria-hidden': 'true', focusable: 'false' });
    drawing.append(...this.#bars, this.#line);
    this.#sum = make('span', { class: 'chart-sum' });
    this.#limit = make('span', { class: 'plot-limit', 'aria-hidden': 'true' });
    this.element = make('figure', { class: small ? 'chart small-chart' : 'chart' },
      make('figcaption', {}, make('span', { class: 'chart-name' }, name), this.#sum),
      make('div', { class: 'plot' }, drawing, this.#limit),
      make('div', { class: 'axis', 'aria-hidden': 'true' }, make('span', {}, '60 s ago'), make('span', {}, 'now')));
  }

  /** Shows a series of [second, value] pairs, oldest first. */
  update(series, limit) {
    const scale = chartHeight / (limit * headroom);
    series.forEach(([second, value], i) => {
      const bar = this.#bars[i];
      const tall = value > 0 ? Math.min(chartHeight, Math.max(value * scale, 2)) : 0;
      bar.setAttribute('y', chartHeight - tall);
      bar.setAttribute('height', tall);
      bar.classList.toggle('full', value >= limit);
      if (!bar.firstChild) bar.append(shape('title', {}));
      say(bar.firstChild, `${clock(second)}: ${number(value)} of ${number(limit)}`);
    });
    const y = chartHeight - limit * scale;
    this.#line.setAttribute('y1', y);
    this.#line.setAttribute('y2', y);
    say(this.#limit, `limit ${number(limit)}`);
    this.#caption(series.map(([, value]) => value), limit);
  }

  #caption(values, limit) {
    const { total, peak, full } = summary(values, limit);
    const parts = [total > 0 ? make('strong', {}, number(total)) : 'none'];
    if (full > 0) parts.push(' · ', make('span', { class: 'chart-full' }, `limit of ${number(limit)} reached in ${full} s`));
    else if (total > 0) parts.push(` · peak ${number(peak)} of ${number(limit)}`);
    const text = parts.map((p) => p.textContent ?? p).join('');
    if (this.#sum.textContent !== text) this.#sum.replaceChildren(...parts);
  }
}

/** Returns the sum and the maximum of values, and how many values reach a limit. */
function summary(values, limit) {
  return {
    total: values.reduce((sum, v) => sum + v, 0),
    peak: Math.max(0, ...values),
    full: values.filter((v) => v >= limit).length,
  };
}
