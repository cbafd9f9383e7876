"""The one query scope: while somebody acts in a workspace, models that belong to workspaces show its rows alone.

It stands in the query sets themselves, so that a page, a resource or a tool that forgets to filter leaks nothing.
Code that runs for a caller in a workspace acts in it, functions of tools, resources and prompts included. Nothing is
narrowed outside workspaces: in commands, and in the hub's own work.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

from django.apps import apps
from django.core.exceptions import PermissionDenied
from django.db import models
from django.db.models import Q
from django.db.models.functions import Cast
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from sessions_app.history import source

_Row = TypeVar("_Row", bound=models.Model)
MOVES = "sessions_app.change_mcpworkspace"
"""The permission to move rows between workspaces."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The workspace in which a request acts."""

    workspace: int
    slug: str


NOWHERE = Scope(0, "")
"""The scope of a person who left a workspace: no row belongs to it."""


class ComesBy(Protocol):
    """A caller's attributes that decide the reads of its code."""

    @property
    def workspace(self) -> int | None: ...
    @property
    def workspace_slug(self) -> str | None: ...


def of_caller(caller: ComesBy) -> Scope | None:
    """Return the workspace that a caller came by, with its key or at its address; None for one of the whole hub."""
    return None if caller.workspace is None else Scope(caller.workspace, caller.workspace_slug or "")


_scope: ContextVar[Scope | None] = ContextVar("workspace in which the request acts", default=None)


def current() -> Scope | None:
    return _scope.get()


@contextmanager
def acting_in(scope: Scope | None) -> Iterator[None]:
    """Narrow reads and writes inside to one workspace; None: to nothing, the whole hub."""
    token = _scope.set(scope)
    try:
        yield
    finally:
        _scope.reset(token)


def narrow(scope: Scope) -> None:
    """Narrow the rest of a request whose key was looked up inside the view. Whoever serves it enters `acting_in`."""
    _scope.set(scope)


def whole_hub() -> Any:
    """Return a context in which code sees all rows: a name must be unique in the whole hub."""
    return acting_in(None)


class OwnedQuerySet(models.QuerySet[_Row]):
    """Rows of a model that may belong to workspaces; of other models it is Django's own.

    One that was made before somebody acted in a workspace, as those of classes are, is narrowed by its first use.
    """

    def __init__(self, model: Any = None, query: Any = None, using: str | None = None, hints: Any = None) -> None:
        super().__init__(model, query, using, hints)
        scope = _scope.get()
        if scope is None or model is None or not issubclass(model, InWorkspace):
            return
        made: Any = self.query
        if getattr(made, "narrowed_to", None) != scope and not made.is_sliced and not made.combinator:
            made.add_q(model.seen_in(scope))
            made.narrowed_to = scope  # a copy of the query has it, too

    def update(self, **values: Any) -> int:
        return models.QuerySet.update(self._own(), **values)

    def delete(self) -> tuple[int, dict[str, int]]:
        return models.QuerySet.delete(self._own())

    update.alters_data = True  # type: ignore[attr-defined]  # as Django marks its own for templates
    delete.alters_data = True  # type: ignore[attr-defined]
    delete.queryset_only = True  # type: ignore[attr-defined]

    def _own(self) -> models.QuerySet[_Row]:
        """Exclude shared rows: within a workspace they can be read but not changed."""
        scope = _scope.get()
        if scope is None or not issubclass(self.model, InWorkspace) or self.query.is_sliced:
            return self
        return self.filter(self.model.owned_in(scope))


class InWorkspace(models.Model):
    """Rows of a workspace, or of none. A model names the column."""

    IS_SHARED: ClassVar[bool] = False
    """Within a workspace, unassigned rows are readable, too."""

    class Meta:
        abstract = True

    @classmethod
    def owned_in(cls, scope: Scope) -> Q:
        raise NotImplementedError

    @classmethod
    def seen_in(cls, scope: Scope) -> Q:
        return cls.owned_in(scope) | Q(workspace=None) if cls.IS_SHARED else cls.owned_in(scope)


class OwnedModel(InWorkspace):
    """A row that operators give to a workspace. Rows created in a workspace belong to it."""

    workspace = models.ForeignKey(
        "sessions_app.McpWorkspace",
        models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("workspace"),
        help_text=_("The workspace it belongs to. Leave blank to share it with everybody."),
    )
    workspace_id: int | None
    _kept_in: Any = ...
    """The workspace of the row as it was read; `...` where that was not."""

    class Meta:
        abstract = True

    @classmethod
    def owned_in(cls, scope: Scope) -> Q:
        return Q(workspace=scope.workspace)

    @classmethod
    def from_db(cls, db: str | None, field_names: Any, values: Any, **more: Any) -> Any:
        row: Any = super().from_db(db, field_names, values, **more)
        if "workspace_id" in row.__dict__:
            row._kept_in = row.workspace_id
        return row

    def save(self, *args: Any, **kwargs: Any) -> None:
        scope = _scope.get()
        if scope is not None and self._state.adding and self.workspace_id is None:
            self.workspace_id = scope.workspace
        self._refuse_strange(scope)
        self.refuse_move()
        super().save(*args, **kwargs)
        self._kept_in = self.workspace_id

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        self._refuse_strange(_scope.get())
        return super().delete(*args, **kwargs)

    def validate_unique(self, exclude: Any = None) -> None:
        with whole_hub():  # a name is one in the whole hub
            super().validate_unique(exclude)

    def validate_constraints(self, exclude: Any = None) -> None:
        with whole_hub():
            super().validate_constraints(exclude)

    def refuse_move(self) -> None:
        """Moving a row changes its visibility: only people who may assign workspaces may do it."""
        if self._state.adding or self._kept_in in (..., self.workspace_id):
            return
        user = source.current().user
        if user is not None and not user.has_perm(MOVES):
            raise PermissionDenied(
                _t(
                    "To move %(row)s into or out of a workspace, you need the permission to change "
                    "workspaces. Ask the hub's operator."
                )
                % {"row": self}
            )

    def _refuse_strange(self, scope: Scope | None) -> None:
        if scope is not None and self.workspace_id != scope.workspace:
            raise PermissionDenied(
                _t("%(row)s doesn't belong to %(workspace)s, the workspace you are in. Ask the hub's operator.")
                % {"row": self, "workspace": scope.slug}
            )


class RecordedInWorkspace(InWorkspace):
    """A record of an event, which keeps the name of the workspace, whatever happens to that."""

    class Meta:
        abstract = True

    @classmethod
    def owned_in(cls, scope: Scope) -> Q:
        return Q(workspace=scope.slug)


class AboutRows(InWorkspace):
    """A row about another one, which it names by `subject_model` and `subject_id`: it is seen with that one.

    Events about deleted rows are visible only in the whole hub.
    """

    class Meta:
        abstract = True

    @classmethod
    def owned_in(cls, scope: Scope) -> Q:
        about = Q(pk__in=())
        for model in apps.get_models():
            if issubclass(model, OwnedModel):
                rows = model._base_manager.filter(workspace=scope.workspace).order_by()
                keys = rows.annotate(named=Cast("pk", models.CharField())).values("named")
                about |= Q(subject_model=model._meta.label_lower, subject_id__in=keys)
        return about
