"""The service against its own OpenAPI document: what it answers to generated requests, good and bad, is what it says.

Bounded and the same each time: six good and six bad requests of each route. CI has the time for no more.
"""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from typing import Any, cast

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from headwater.producers.api.config import ApiConfig
from headwater.producers.api.public.app import public_app
from headwater.producers.api.public.service import Service

# The threads of the service, which runs in this process, draw random numbers while a request is generated.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")

_CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
]
_DOCUMENT: dict[str, Any] = public_app(Service(ApiConfig(), *[cast(Any, None)] * 6)).openapi()
_ROUTES = [
    (method, path) for path, methods in _DOCUMENT["paths"].items() if path.startswith("/v1/") for method in methods
]


def _acceptable() -> dict[str, Any]:
    """The document with what no schema says: which model there is, and what it takes."""
    document = deepcopy(_DOCUMENT)
    fields = document["components"]["schemas"]["VideoRequest"]["properties"]
    fields |= {"model": {"const": "testcard"}, "size": {"enum": ["720x1280", "1280x720"]}, "seconds": {"enum": ["4"]}}
    fields |= {"parameters": {"const": {"seed": 1}}, "prompt": {"type": "string", "minLength": 1, "maxLength": 100}}
    for name in ("input_url", "webhook_url", "deadline"):
        fields[name] = {"type": "null"}
    return document


@pytest.fixture(scope="module")
def key(served: Any) -> str:
    served.tenant("tess").close()
    return str(served.keys["tess"])


def _try(served: Any, key: str, operation: Any, mode: GenerationMode, checks: list[Any]) -> Counter[int]:
    """Asks it what is generated from the document; the statuses that came."""
    statuses: Counter[int] = Counter()

    @given(st.data())
    @settings(max_examples=6, phases=(Phase.generate,), suppress_health_check=list(HealthCheck), deadline=None)
    def hold(data: st.DataObject) -> None:
        case: Case = data.draw(operation.as_strategy(generation_mode=mode))
        answer = case.call(base_url=served.api.url, headers={"Authorization": f"Bearer {key}"}, allow_redirects=False)
        statuses[answer.status_code] += 1
        case.validate_response(answer, checks=checks)

    hold()
    return statuses


@pytest.mark.parametrize(("method", "path"), _ROUTES)
def test_what_a_route_answers_to_bad_requests_is_what_the_document_says(
    served: Any, key: str, method: str, path: str
) -> None:
    operation = schemathesis.openapi.from_dict(_DOCUMENT)[path][method]
    _try(served, key, operation, GenerationMode.NEGATIVE, [*_CHECKS, negative_data_rejection])


@pytest.mark.parametrize(("method", "path"), _ROUTES)
def test_what_a_route_answers_to_good_requests_is_what_the_document_says(
    served: Any, key: str, method: str, path: str
) -> None:
    operation = schemathesis.openapi.from_dict(_acceptable())[path][method]
    statuses = _try(served, key, operation, GenerationMode.POSITIVE, _CHECKS)
    if path == "/v1/videos" and method == "post":
        assert statuses[202] > 0


def test_the_document_is_openapi_3_1_with_the_webhooks_that_are_sent() -> None:
    assert _DOCUMENT["openapi"].startswith("3.1")
    assert _DOCUMENT["webhooks"].keys() == {"video.completed", "video.failed", "video.cancelled", "video.expired"}
    for path, methods in _DOCUMENT["paths"].items():
        for operation in methods.values():
            assert operation["summary"], path
            assert operation["description"], path
            problem = operation["responses"]["422"]["content"]["application/problem+json"]
            assert problem["schema"] == {"$ref": "#/components/schemas/ProblemShape"}
