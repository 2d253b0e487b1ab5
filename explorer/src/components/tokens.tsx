// Texts of language models, every token coloured by how likely it was found, or by how little two models agree on it.
import type { RunTokens, TokenTextItem } from "../answers";
import { OPENING, useAgain, useAnswer } from "../api";

/** The texts at these places of a run, beside another one where it is named. */
export function useTokens(run: string, other: string | undefined, places: number[]): RunTokens | null {
  const { answer, again } = useAnswer(places.length ? "/runs/{run}/tokens" : null, {
    run,
    other,
    index: places.map(String),
  });
  useAgain(answer?.state === "opening", again, answer, OPENING);
  return answer ?? null;
}

export function TokenLegend({ tokens }: { tokens: RunTokens }) {
  if (tokens.rows.length === 0) return null;
  return (
    <>
      {tokens.sentence && (
        <p class="notice" role="status">
          <bdi>{tokens.sentence}</bdi>
        </p>
      )}
      <p class="token-legend">
        {tokens.title}:{" "}
        {tokens.legend.map((words, level) => (
          <span class={`token-${level}`}>{words}</span>
        ))}
        <span class="token-other">underlined: {tokens.underlined}</span>
      </p>
    </>
  );
}

export function TokenText({ text }: { text: TokenTextItem }) {
  return (
    <p class="token-text">
      <bdi>
        <span class="dim">{text.before}</span>
        {text.tokens.map((token) => (
          <span class={`token-${token.level}${token.other ? " token-other" : ""}`} data-said={token.said}>
            {token.text}
          </span>
        ))}
      </bdi>
      {text.more > 0 && <span class="dim"> … {text.more.toLocaleString("en")} more tokens</span>}
    </p>
  );
}
