/** Bars, one a day, stacked; each day's figures in words for those who point at it or cannot see it. */

import { useEffect, useId, useRef, useState } from "preact/hooks";

interface Series {
  name: string;
  values: number[];
}

interface DayChartProps {
  title: string;
  total: string;
  days: string[];
  series: Series[];
  text: (value: number) => string;
}

const HEIGHT = 150;
const FLOOR = 128;

export function DayChart({ title, total, days, series, text }: DayChartProps) {
  const heading = useId();
  const drawing = useRef<SVGSVGElement>(null);
  const [across, setWidth] = useState(720);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => {
      if (entry !== undefined) setWidth(Math.max(200, Math.round(entry.contentRect.width)));
    });
    if (drawing.current !== null) observer.observe(drawing.current);
    return () => observer.disconnect();
  }, []);
  const sums = days.map((_, at) => series.reduce((sum, each) => sum + (each.values[at] ?? 0), 0));
  const top = Math.max(...sums, 0);
  const step = across / Math.max(days.length, 1);
  const width = Math.max(1, Math.min(28, step * 0.72));
  return (
    <section class="card padded usage-chart" aria-labelledby={heading}>
      <h2 id={heading}>
        {title} <span class="soft small">{total}</span>
      </h2>
      {series.length > 1 && (
        <ul class="row small usage-legend">
          {series.map((each, at) => (
            <li key={each.name} class={`usage-series-${at}`}>
              {each.name}
            </li>
          ))}
        </ul>
      )}
      <svg
        ref={drawing}
        viewBox={`0 0 ${across} ${HEIGHT}`}
        role="img"
        aria-label={`${title} by day: ${total}`}
      >
        <line class="usage-floor" x1={0} x2={across} y1={FLOOR} y2={FLOOR} />
        {top > 0 && (
          <text class="usage-top" x={0} y={11}>
            {text(top)}
          </text>
        )}
        {days.map((day, at) => (
          <g key={day}>
            <title>
              {day}: {series.map((each) => `${text(each.values[at] ?? 0)} ${each.name}`).join(", ")}
            </title>
            <rect class="usage-hit" x={at * step} y={0} width={step} height={FLOOR} />
            {stacked(series, at, top).map(({ y, height, index }) => (
              <rect
                key={index}
                class={`usage-bar usage-series-${index}`}
                x={at * step + (step - width) / 2}
                y={y}
                width={width}
                height={height}
                rx={Math.min(3, width / 4)}
              />
            ))}
          </g>
        ))}
        {labelled(days).map((at) => (
          <text key={at} class="usage-day" x={at * step + step / 2} y={HEIGHT - 6}>
            {dayOf(days[at] ?? "")}
          </text>
        ))}
      </svg>
    </section>
  );
}

function stacked(series: Series[], at: number, top: number) {
  const room = FLOOR - 18;
  const bars: { y: number; height: number; index: number }[] = [];
  let y = FLOOR;
  series.forEach((each, index) => {
    const value = each.values[at] ?? 0;
    if (value <= 0 || top <= 0) return;
    const height = Math.max(1.5, (value / top) * room);
    y -= height;
    bars.push({ y, height, index });
  });
  return bars;
}

/** Some six days, so that their names have room. */
function labelled(days: string[]): number[] {
  const every = Math.max(1, Math.ceil(days.length / 6));
  return days
    .map((_, at) => at)
    .filter((at) => (days.length - 1 - at) % every === Math.floor(every / 2));
}

const dayFormat = new Intl.DateTimeFormat(undefined, {
  day: "numeric",
  month: "short",
  timeZone: "UTC",
});

function dayOf(date: string): string {
  return dayFormat.format(new Date(`${date}T00:00:00Z`));
}
