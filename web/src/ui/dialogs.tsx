/** The two dialogs that there are: one that asks for something, one that asks whether. */

import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import type { IconName } from "./icons";
import { Button, Dialog } from "./parts";

interface FormDialogProps {
  title: string;
  close: () => void;
  /** What the button says. */
  act: string;
  icon?: IconName;
  submit: () => Promise<void>;
  disabled?: boolean;
  children: ComponentChildren;
}

/** Enter in a field does what the button does. */
export function FormDialog(props: FormDialogProps) {
  const { title, close, act, icon, submit, disabled = false, children } = props;
  const running = useRef<Promise<void> | null>(null);
  const once = () => {
    running.current ??= submit().finally(() => {
      running.current = null;
    });
    return running.current;
  };
  return (
    <Dialog title={title} close={close}>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          if (!disabled) void once();
        }}
      >
        {children}
        <div class="row">
          <Button look="main" onClick={once} disabled={disabled} {...(icon ? { icon } : {})}>
            {act}
          </Button>
          <Button onClick={close}>Cancel</Button>
        </div>
      </form>
    </Dialog>
  );
}

interface ConfirmDialogProps {
  title: string;
  close: () => void;
  /** What the button says that does it. */
  act: string;
  confirm: () => Promise<unknown>;
  /** What it means. */
  children: ComponentChildren;
  keep?: string;
  icon?: IconName;
}

/** For what cannot be taken back. */
export function ConfirmDialog(props: ConfirmDialogProps) {
  const { title, close, act, confirm, children, keep = "Keep it", icon = "trash" } = props;
  return (
    <Dialog title={title} close={close}>
      <p>{children}</p>
      <div class="row">
        <Button look="danger" icon={icon} onClick={confirm}>
          {act}
        </Button>
        <Button onClick={close}>{keep}</Button>
      </div>
    </Dialog>
  );
}
