/** What the account has used: this month, day by day, and its limits. */

import "./usage.css";
import { get, type Schemas } from "../../api/client";
import { ENDS } from "../../live/progress";
import { useResource } from "../../live/resource";
import { setQuery } from "../../router";
import { bytes, count, duration, exactDay, money } from "../../ui/format";
import { Bar, ErrorBox, Field, Loading } from "../../ui/parts";
import { TableCard } from "../../ui/table_card";
import type { ViewProps } from "../../views";
import { DayChart } from "./day_chart";

const SPANS = [7, 30, 90, 365];
const FRESH = { on: [...ENDS] };

export default function UsageView({ query }: ViewProps) {
  const asked = Number(query.get("days"));
  const days = SPANS.includes(asked) ? asked : 30;
  const who = useResource("whoami", (signal) => get("/v1/whoami", { signal }), FRESH);
  const series = useResource(
    `days/${days}`,
    (signal) => get("/v1/usage/days", { query: { days }, signal }),
    FRESH,
  );
  return (
    <>
      <header>
        <h1>Usage & cost</h1>
        <span class="push usage-span">
          <Field label="Shown">
            {(attributes) => (
              <select
                {...attributes}
                value={days}
                onChange={(event) => setQuery({ days: event.currentTarget.value })}
              >
                {SPANS.map((each) => (
                  <option key={each} value={each}>
                    the last {each} days
                  </option>
                ))}
              </select>
            )}
          </Field>
        </span>
      </header>
      {who.error && <ErrorBox error={who.error} retry={who.reload} />}
      {who.data !== null && <ThisMonth who={who.data} />}
      {series.error && <ErrorBox error={series.error} retry={series.reload} />}
      {series.data === null ? (
        !series.error && <Loading lines={8} />
      ) : (
        <Charts days={series.data.days} total={series.data.total} />
      )}
      {who.data !== null && who.data.usage.earlier.length > 0 && (
        <Earlier months={who.data.usage.earlier} />
      )}
    </>
  );
}

function ThisMonth({ who }: { who: Schemas["WhoAmI"] }) {
  const { usage } = who;
  return (
    <section class="card padded stack" aria-label="This month">
      <h2>
        This month <span class="soft small">until {exactDay(usage.resets_at)}</span>
      </h2>
      <div class="usage-month">
        <Part name="Jobs" used={usage.jobs} limit={usage.quotas.jobs} text={count} />
        <Part
          name="Time on workers"
          used={usage.gpu_seconds}
          limit={usage.quotas.gpu_seconds}
          text={duration}
        />
        <Part
          name="Files kept"
          used={usage.storage_bytes}
          limit={usage.quotas.storage_bytes}
          text={bytes}
        />
      </div>
      {who.limits !== null && (
        <p class="small soft">
          Tier {who.tier}: {count(who.limits.submissions_per_minute)} jobs a minute,{" "}
          {count(who.limits.requests_per_minute)} requests a minute,{" "}
          {count(who.limits.concurrent_jobs)} jobs at once.
        </p>
      )}
    </section>
  );
}

interface PartProps {
  name: string;
  used: number;
  limit: number | null;
  text: (value: number) => string;
}

function Part({ name, used, limit, text }: PartProps) {
  return (
    <div>
      <p class="soft small">{name}</p>
      <p class="usage-figure number">
        {text(used)}
        {limit !== null && <span class="soft small"> of {text(limit)}</span>}
      </p>
      {limit !== null && (
        <Bar value={limit === 0 ? 1 : Math.min(1, used / limit)} label={`${name} used`} />
      )}
    </div>
  );
}

type Day = Schemas["DayBody"];

function Charts({ days, total }: { days: Day[]; total: Schemas["DaysTotal"] }) {
  return (
    <>
      <DayChart
        title="Jobs"
        total={`${count(total.completed)} done, ${count(total.failed)} failed, ${count(total.cancelled)} cancelled`}
        days={days.map((each) => each.date)}
        series={[
          { name: "done", values: days.map((each) => each.completed) },
          { name: "failed", values: days.map((each) => each.failed) },
          { name: "cancelled", values: days.map((each) => each.cancelled) },
        ]}
        text={count}
      />
      <div class="usage-pair">
        <DayChart
          title="Time on workers"
          total={duration(total.gpu_seconds)}
          days={days.map((each) => each.date)}
          series={[{ name: "time", values: days.map((each) => each.gpu_seconds) }]}
          text={duration}
        />
        <DayChart
          title="Cost"
          total={money(total.cost)}
          days={days.map((each) => each.date)}
          series={[{ name: "cost", values: days.map((each) => each.cost) }]}
          text={money}
        />
      </div>
    </>
  );
}

function Earlier({ months }: { months: Schemas["MonthBody"][] }) {
  return (
    <TableCard label="Earlier months">
      <table>
        <caption class="hidden">Earlier months</caption>
        <thead>
          <tr>
            <th scope="col">Month</th>
            <th scope="col">Jobs</th>
            <th scope="col">Time on workers</th>
          </tr>
        </thead>
        <tbody>
          {months.map((each) => (
            <tr key={each.month}>
              <th scope="row">{each.month}</th>
              <td class="number">{count(each.jobs)}</td>
              <td class="number">{duration(each.gpu_seconds)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableCard>
  );
}
