// The verdict of a comparison: same, different or not known, each in its own look and words, and what it rests on.
import type { VerdictItem } from "../answers";

const KINDS = { same: "good", different: "different", "not known": "unknown" };

export function VerdictLine({ verdict }: { verdict: VerdictItem }) {
  const { outcome, words, coverage, remedies } = verdict;
  return (
    <div class={`verdict ${outcome ? KINDS[outcome] : ""}`}>
      <p>
        {outcome && <span class="mark">{outcome}</span>} <bdi>{words}</bdi>
      </p>
      {[coverage, ...remedies].filter(Boolean).map((text) => (
        <p class="coverage">
          <bdi>{text}</bdi>
        </p>
      ))}
    </div>
  );
}
