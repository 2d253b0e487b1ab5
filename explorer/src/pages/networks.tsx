// Two networks side by side. Pages that name two models lead here.
import { NetworkDiff } from "../components/networkdiff";
import { EmptyState } from "../components/states";
import { address, useRoute } from "../router";

export function NetworksPage() {
  const { query } = useRoute();
  const a = query.get("a") ?? "";
  const b = query.get("b") ?? "";
  const audit = query.get("audit") ?? "";
  return (
    <>
      {audit && (
        <p class="crumbs">
          <a href={address(`audit/${audit}`)}>Findings of the audit</a>
        </p>
      )}
      <h1>Two networks</h1>
      {a && b ? (
        <>
          <p>
            What the sources of both models build, in one form: layers that compute the same are the same, whatever each source
            calls them. <a href={address("networks", { a: b, b: a, audit })}>Swap A and B</a>
          </p>
          <NetworkDiff key={`${a} ${b}`} a={a} b={b} />
        </>
      ) : (
        <EmptyState title="Two models must be named.">
          <p>
            The page of a model lists its namesakes, and an audit's findings name networks that differ. On the command line:{" "}
            <code>zoolens diff A B</code>
          </p>
        </EmptyState>
      )}
    </>
  );
}
