// Charts of the last 60 seconds.

const chartHeight = 100;
const headroom = 1.15; // the top of the scale, divided by the limit; above 1, so that the line at the limit is visible

/**
 * A chart with one bar per second and a line at the limit, of a series of [second, value] pairs,
 * oldest first. The caption describes the chart in words, and the table under the charts has all
 * figures.
 */
function Chart({ name, series, limit, small = false }) {
  const scale = chartHeight / (limit * headroom);
  const y = chartHeight - limit * scale;
  return html`<figure class=${small ? 'chart small-chart' : 'chart'}>
    <figcaption><span class="chart-name">${name}</span><${ChartSum} values=${series.map(([, value]) => value)} limit=${limit} /></figcaption>
    <div class="plot">
      <svg viewBox=${`0 0 ${series.length} ${chartHeight}`} preserveAspectRatio="none" aria-hidden="true" focusable="false">
        ${series.map(([second, value], i) => {
    const tall = value > 0 ? Math.min(chartHeight, Math.max(value * scale, 2)) : 0;
    const kind = [value >= limit && 'full', i === series.length - 1 && 'now'].filter(Boolean).join(' ');
    return html`<rect key=${i} class=${kind} x=${i + 0.1} width="0.8" y=${chartHeight - tall} height=${tall}><title>${clock(second)}: ${number(value)} of ${number(limit)}</title></rect>`;
  })}
        <line x1="0" x2=${series.length} y1=${y} y2=${y} />
      </svg>
      <span class="plot-limit" aria-hidden="true">limit ${number(limit)}</span>
    </div>
    <div class="axis" aria-hidden="true"><span>60 s ago</span><span>now</span></div>
  </figure>`;
}

function ChartSum({ values, limit }) {
  const { total, peak, full } = summary(values, limit);
  if (total === 0) return html`<span class="chart-sum">none</span>`;
  return html`<span class="chart-sum"><strong>${number(total)}</strong> · ${full > 0 ? html`<span class="chart-full">limit of ${number(limit)} reached in ${full} s</span>` : `peak ${number(peak)} of ${number(limit)}`}</span>`;
}

/** Returns the sum and the maximum of values, and how many values reach a limit. */
function summary(values, limit) {
  return {
    total: values.reduce((sum, v) => sum + v, 0),
    peak: Math.max(0, ...values),
    full: values.filter((v) => v >= limit).length,
  };
}
