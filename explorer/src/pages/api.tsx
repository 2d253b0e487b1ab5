// What the API answers: made of its own OpenAPI description.
import { useEffect, useState } from "preact/hooks";
import { ApiError, description } from "../api";
import { ErrorState, Loading } from "../components/states";
import { useReturns } from "../connection";

interface Parameter {
  name: string;
  in: string;
  required: boolean;
  description: string;
  schema: { type?: string; default?: unknown; enum?: string[]; items?: { type?: string } };
}
interface Operation {
  summary: string;
  parameters?: Parameter[];
}
interface Description {
  paths: Record<string, Record<string, Operation>>;
}

export function ApiPage() {
  const [known, setDescription] = useState<Description>();
  const [error, setError] = useState<ApiError>();
  const returns = useReturns();
  useEffect(() => {
    description<Description>().then(
      (answer) => {
        setDescription(answer);
        setError(undefined);
      },
      (failure: unknown) => setError(failure instanceof ApiError ? failure : new ApiError(String(failure), 0)),
    );
  }, [returns]);
  return (
    <>
      <h1>API</h1>
      <p>
        Everything that the explorer shows is answered as JSON. The description for code generators is{" "}
        <a href="api/v1/openapi.json">OpenAPI 3.1</a>. Errors are <code>{'{"error": "…"}'}</code> with a fitting status.
      </p>
      {error && <ErrorState error={error} />}
      {!known && !error && <Loading />}
      {known &&
        Object.entries(known.paths).flatMap(([path, operations]) =>
          Object.entries(operations).map(([method, operation]) => (
            <Endpoint path={path} method={method} operation={operation} />
          )),
        )}
    </>
  );
}

function Endpoint({ path, method, operation }: { path: string; method: string; operation: Operation }) {
  const parameters = operation.parameters ?? [];
  return (
    <section class="endpoint">
      <h2>
        <span class="method">{method.toUpperCase()}</span> <code>{path}</code>
      </h2>
      <p>{operation.summary}.</p>
      {parameters.length > 0 && (
        <dl>
          {parameters.map((parameter) => (
            <div>
              <dt>
                <code>{parameter.name}</code>
              </dt>
              <dd>
                {parameter.description}{" "}
                <span class="dim">
                  {parameter.schema.enum?.join(", ") ?? parameter.schema.type ?? ""}
                  {parameter.in === "path" ? ", in the path" : ""}
                  {parameter.required ? ", required" : ""}
                </span>
              </dd>
            </div>
          ))}
        </dl>
      )}
    </section>
  );
}
