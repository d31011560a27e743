/** How far something is, inside of a button; what it shows is said in words beside it. */
export function MiniBar({ value }: { value: number | null }) {
  return (
    <span
      class={value === null ? "bar unknown job-mini-bar" : "bar job-mini-bar"}
      aria-hidden="true"
    >
      <span style={{ width: value === null ? "30%" : `${value * 100}%` }} />
    </span>
  );
}
