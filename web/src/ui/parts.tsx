/** The parts that every view is made of. */

import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { ApiError } from "../api/client";
import { copy } from "./clipboard";
import { now } from "./clock";
import { exactTime, when } from "./format";
import { Icon, type IconName } from "./icons";

interface ButtonProps {
  children?: ComponentChildren;
  onClick?: () => unknown;
  icon?: IconName;
  /** `main`: what one came for; `danger`: cannot be taken back. */
  look?: "plain" | "main" | "danger" | "quiet";
  /** Needed where there are no words in it. */
  label?: string;
  disabled?: boolean;
  pressed?: boolean;
  type?: "button" | "submit";
  small?: boolean;
  class?: string;
}

/** While what it began is under way it is busy and cannot be pressed again. */
export function Button(props: ButtonProps) {
  const { children, onClick, icon, look = "plain", label, disabled, pressed, type, small } = props;
  const [busy, setBusy] = useState(false);
  const isThere = useRef(true);
  useEffect(
    () => () => {
      isThere.current = false;
    },
    [],
  );
  const press = () => {
    const begun = onClick?.();
    if (!(begun instanceof Promise)) return;
    setBusy(true);
    void begun.finally(() => isThere.current && setBusy(false));
  };
  const sort = `button ${look}${small ? " small" : ""}${children === undefined ? " bare" : ""}`;
  return (
    <button
      type={type ?? "button"}
      class={props.class ? `${sort} ${props.class}` : sort}
      onClick={press}
      disabled={disabled === true || busy}
      aria-busy={busy || undefined}
      aria-label={label}
      title={children === undefined ? label : undefined}
      aria-pressed={pressed}
    >
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

interface LinkButtonProps {
  href: string;
  children?: ComponentChildren;
  icon?: IconName;
  look?: "plain" | "main" | "quiet";
  label?: string;
  /** What more there is to know of it. */
  title?: string;
  download?: boolean | string;
  small?: boolean;
}

export function LinkButton(props: LinkButtonProps) {
  const { href, children, icon, look = "plain", label, title, download, small } = props;
  return (
    <a
      class={`button ${look}${small ? " small" : ""}${children === undefined ? " bare" : ""}`}
      href={href}
      aria-label={label}
      title={title ?? (children === undefined ? label : undefined)}
      download={download}
    >
      {icon && <Icon name={icon} />}
      {children}
    </a>
  );
}

/** A state in a word and a colour. */
export function Pill({ state, children }: { state: string; children?: ComponentChildren }) {
  return <span class={`pill ${state}`}>{children ?? state}</span>;
}

/** `value` from 0 to 1; null: under way, nobody knows how far. */
export function Bar({ value, label }: { value: number | null; label: string }) {
  const shown = value === null ? undefined : Math.round(value * 100);
  return (
    <div
      class={value === null ? "bar unknown" : "bar"}
      role="progressbar"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={shown}
    >
      <span style={{ width: value === null ? "30%" : `${value * 100}%` }} />
    </div>
  );
}

export function Time({ at }: { at: string }) {
  return (
    <time dateTime={at} title={exactTime(at)}>
      {when(at, now.value)}
    </time>
  );
}

/** What went wrong, where, and what can be done. */
export function ErrorBox({ error, retry }: { error: ApiError; retry?: () => void }) {
  return (
    <div class="notice error" role="alert">
      <Icon name="warning" />
      <div>
        <p>{error.message}</p>
        <p class="soft small">
          {error.code}
          {error.requestId !== null && ` · request ${error.requestId}`}
        </p>
      </div>
      {retry && (
        <Button onClick={retry} icon="retry" small>
          Try again
        </Button>
      )}
    </div>
  );
}

export function Notice({
  look = "info",
  children,
}: {
  look?: "info" | "warning" | "good";
  children: ComponentChildren;
}) {
  return (
    <div class={`notice ${look}`}>
      <Icon name={look === "good" ? "check" : look} />
      <div>{children}</div>
    </div>
  );
}

/** Instead of an empty list: what would be here, and how it gets here. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

/** Grey shapes where something will be, so that nothing jumps when it is there. */
export function Loading({ lines = 4 }: { lines?: number }) {
  return (
    <div class="loading" role="status" aria-label="Loading">
      {Array.from({ length: lines }, (_, each) => (
        <span key={each} />
      ))}
    </div>
  );
}

export function CopyButton({ text, label }: { text: string | (() => string); label: string }) {
  const act = () => copy(typeof text === "string" ? text : text());
  return <Button icon="copy" look="quiet" small label={label} onClick={act} />;
}

interface DialogProps {
  title: string;
  close: () => void;
  children: ComponentChildren;
  wide?: boolean;
  /** For what is shown only once: a click beside it does not close it. */
  firm?: boolean;
}

/** On top of everything until it is closed; Escape closes it, and the focus goes back. */
export function Dialog({ title, close, children, wide, firm }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => {
    const opener = document.activeElement;
    dialog.current?.showModal();
    return () => {
      // Nothing beside it takes the focus before it is gone.
      queueMicrotask(() => focusAgain(opener));
    };
  }, []);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes every dialog; this is a click beside it
    <dialog
      ref={dialog}
      class={wide ? "wide" : undefined}
      aria-labelledby={heading}
      onClose={close}
      onClick={(event) => !firm && event.target === dialog.current && dialog.current?.close()}
    >
      <div class="dialog">
        <header>
          <h2 id={heading}>{title}</h2>
          <Button icon="close" look="quiet" label="Close" onClick={() => dialog.current?.close()} />
        </header>
        {children}
      </div>
    </dialog>
  );
}

/** Where a dialog was opened from; the view itself where that is gone. Unless it is elsewhere. */
function focusAgain(opener: Element | null): void {
  if (document.activeElement !== null && document.activeElement !== document.body) return;
  const isThere = opener instanceof HTMLElement && opener.isConnected && opener !== document.body;
  const target = isThere ? opener : document.querySelector<HTMLElement>("main");
  target?.focus({ preventScroll: true });
}

interface FieldProps {
  label: string;
  hint?: string;
  error?: string | null;
  children: (attributes: {
    id: string;
    "aria-describedby"?: string;
    "aria-invalid"?: true;
  }) => ComponentChildren;
}

/** A control with its label, a hint and what is wrong with its value, tied together for readers. */
export function Field({ label, hint, error, children }: FieldProps) {
  const id = useId();
  const about = `${id}-about`;
  const isTold = hint !== undefined || (error ?? null) !== null;
  return (
    <div class={error ? "field wrong" : "field"}>
      <label for={id}>{label}</label>
      {children({
        id,
        ...(isTold ? { "aria-describedby": about } : {}),
        ...(error ? { "aria-invalid": true as const } : {}),
      })}
      {isTold && (
        <p class={error ? "fault" : "hint"} id={about}>
          {error ?? hint}
        </p>
      )}
    </div>
  );
}
