// A line for the query language: what may stand at the cursor is offered by the server, and errors are shown at the token.
import { useEffect, useRef, useState } from "preact/hooks";
import type { CompletionItem, Problem } from "../answers";
import { get, isLive } from "../api";

const PATIENCE = 120; // milliseconds after the last key

interface QueryInputProps {
  value: string;
  problem: Problem | null;
  /** Called when the reader asks: with the Enter key or the button. */
  onAsk: (value: string) => void;
}

export function QueryInput({ value, problem, onAsk }: QueryInputProps) {
  const input = useRef<HTMLInputElement>(null);
  const [text, setText] = useState(value);
  const [items, setItems] = useState<CompletionItem[]>([]);
  const [active, setActive] = useState(-1);
  const asked = useRef(0);
  useEffect(() => setText(value), [value]);
  const close = () => {
    asked.current += 1;
    setItems([]);
    setActive(-1);
  };
  const offer = () => {
    if (!isLive()) return;
    const number = ++asked.current;
    setTimeout(() => {
      const at = input.current?.selectionStart ?? 0;
      if (number !== asked.current) return;
      get("/choose/completions", { q: input.current?.value ?? "", at })
        .then((answer) => {
          if (number !== asked.current) return;
          setItems(answer.items);
          setActive(-1);
        })
        .catch(() => undefined); // offers are a help: without them the line works as before
    }, PATIENCE);
  };
  const take = (item: CompletionItem) => {
    const next = `${text.slice(0, item.start)}${item.text} ${text.slice(item.end).trimStart()}`;
    const at = item.start + item.text.length + 1;
    setText(next);
    close();
    requestAnimationFrame(() => {
      input.current?.focus();
      input.current?.setSelectionRange(at, at);
      offer();
    });
  };
  const press = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined && items.length) {
      setActive((before) => (before + step + items.length + (before < 0 && step < 0 ? 1 : 0)) % items.length);
      event.preventDefault();
    } else if (event.key === "Escape" && items.length) {
      close();
      event.preventDefault();
    } else if ((event.key === "Enter" || event.key === "Tab") && active >= 0 && items[active]) {
      take(items[active]!);
      event.preventDefault();
    } else if (event.key === "Enter") {
      close();
      onAsk(text);
    }
  };
  return (
    <form
      class="query"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        close();
        onAsk(text);
      }}
    >
      <div class="line">
        <input
          ref={input}
          type="text"
          role="combobox"
          aria-label="Query"
          aria-expanded={items.length > 0}
          aria-controls="offers"
          aria-autocomplete="list"
          aria-activedescendant={active >= 0 ? `offer-${active}` : undefined}
          aria-invalid={problem !== null}
          aria-describedby={problem ? "problem" : undefined}
          autocomplete="off"
          spellcheck={false}
          placeholder="CORR model WITHIN 95% ON size <= 50%"
          value={text}
          onInput={(event) => {
            setText(event.currentTarget.value);
            offer();
          }}
          onKeyDown={press}
          onFocus={offer}
          onBlur={() => setTimeout(close, 150)}
        />
        <ul id="offers" role="listbox" aria-label="What may follow here" hidden={!items.length}>
          {items.map((item, place) => (
            <li
              id={`offer-${place}`}
              role="option"
              aria-selected={place === active}
              onMouseDown={(event) => {
                event.preventDefault();
                take(item);
              }}
            >
              <bdi>{item.text}</bdi> <span class="dim">{item.kind}</span>
            </li>
          ))}
        </ul>
      </div>
      <button type="submit" class="primary">
        Ask
      </button>
      {problem && (
        <div id="problem" class="query-problem" role="alert">
          <code>
            <bdi>
              {value.slice(0, problem.start)}
              <mark>{value.slice(problem.start, problem.end) || "…"}</mark>
              {value.slice(problem.end)}
            </bdi>
          </code>
          <p>
            <bdi>{problem.message}</bdi> <bdi class="dim">{problem.hint}</bdi>
          </p>
        </div>
      )}
    </form>
  );
}
