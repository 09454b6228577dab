"""A schedule by partitions of assets (Airflow: PartitionedAssetTimetable)."""

from ...base import Model, OmitDefaults
from .condition import Condition
from .identity import Asset
from .mappers import IdentityMapper, Mapper


class MappedAsset(Model):
    """The mapper of an asset: known by its name, or by its uri where no name is given."""

    name: str | None = None
    """The name of the asset."""
    uri: str | None = None
    """Its uri, where no name is given."""
    mapper: Mapper
    """How its keys become those of runs."""

    def is_of(self, asset: Asset) -> bool:
        """Whether *asset* is meant."""
        return asset.name == self.name if self.name is not None else asset.uri == self.uri


class Partitioned(OmitDefaults, Model):
    """Which assets make up a partition, and how their keys become those of runs."""

    assets: Condition
    """The assets that have to be there for a partition."""
    mappers: tuple[MappedAsset, ...] = ()
    """Mappers of single assets."""
    default_mapper: Mapper = IdentityMapper()
    """The mapper of all other assets."""

    def mapper_of(self, asset: Asset) -> Mapper:
        """What makes keys of runs from those of *asset*."""
        return next((mapped.mapper for mapped in self.mappers if mapped.is_of(asset)), self.default_mapper)
