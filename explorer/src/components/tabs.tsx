// Tabs whose choice lives in the address, with the keys that people who use no mouse expect.
import type { ComponentChildren } from "preact";
import { useQueryState } from "../router";

export interface Tab {
  key: string;
  title: string;
  content: () => ComponentChildren;
}

export function Tabs({ tabs, label, parameter = "tab" }: { tabs: Tab[]; label: string; parameter?: string }) {
  const [value, setValue] = useQueryState(parameter, tabs[0]?.key ?? "");
  const chosen = tabs.find((tab) => tab.key === value) ?? tabs[0];
  if (!chosen) return null;
  const move = (event: KeyboardEvent & { currentTarget: HTMLElement }) => {
    const at = tabs.indexOf(chosen);
    const place = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: -1 }[event.key];
    if (place === undefined) return;
    const next = tabs[(place + tabs.length) % tabs.length]!;
    setValue(next.key);
    event.currentTarget.querySelector<HTMLElement>(`#tab-${parameter}-${next.key}`)?.focus();
    event.preventDefault();
  };
  return (
    <div class="tabs">
      <div role="tablist" aria-label={label} onKeyDown={move}>
        {tabs.map((tab) => (
          <button
            type="button"
            role="tab"
            id={`tab-${parameter}-${tab.key}`}
            aria-selected={tab === chosen}
            aria-controls={`panel-${parameter}`}
            tabIndex={tab === chosen ? 0 : -1}
            onClick={() => setValue(tab.key)}
          >
            {tab.title}
          </button>
        ))}
      </div>
      <div role="tabpanel" id={`panel-${parameter}`} aria-labelledby={`tab-${parameter}-${chosen.key}`} tabIndex={0}>
        {chosen.content()}
      </div>
    </div>
  );
}
