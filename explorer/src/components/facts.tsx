// Facts with their names, below a heading.
import type { Fact } from "../answers";

export function Facts({ title, facts }: { title: string; facts: Fact[] }) {
  if (!facts.length) return null;
  return (
    <>
      <h2>{title}</h2>
      <dl>
        {facts.map((fact) => (
          <div>
            <dt class="dim">
              <bdi>{fact.name}</bdi>
            </dt>
            <dd>
              <bdi>{fact.value}</bdi>
            </dd>
          </div>
        ))}
      </dl>
    </>
  );
}
