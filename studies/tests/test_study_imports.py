"""Listing the studies loads none of them."""

from processes import HEAVY, loaded


def test_the_catalogue_of_studies_loads_no_study():
    code = "from dcfw_studies.catalogue import CATALOGUE"
    assert loaded(code, (*HEAVY, "joblib", "distributed", "dcfw_studies.qap", "sklearn")) == []
