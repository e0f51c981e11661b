"""Tomcat's connector, and its own pools of database connections."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tailrace.advise.software.steps import Line, Step
from tailrace.units import MILLISECOND

NAME, TITLE = "tomcat", "Tomcat"


def lines(step: Step) -> Iterator[Line]:
    line = partial(Line, TITLE, step.tier)
    match step.what:
        case "backlog":
            note = 'an attribute of <Connector>; connections up to maxConnections="8192" are accepted first'
            yield line("server.xml", f'acceptCount="{step.now}"', f'acceptCount="{step.then}"', note)
        case "workers":
            yield line("server.xml", f'maxThreads="{step.now}"', f'maxThreads="{step.then}"', "of <Connector>")
        case "kind":
            note = "of <Connector>; the servlets must use asynchronous calls and drivers"
            yield line("server.xml", "", 'protocol="org.apache.coyote.http11.Http11NioProtocol"', note)
            executor = '<Executor name="virtual" className="org.apache.catalina.core.StandardVirtualThreadExecutor"/>'
            yield line("server.xml", "", executor, "since Tomcat 10.1.10 on Java 21, as another way")
        case "pool":
            note = f"of the <Resource> for {step.callee}"
            yield line("context.xml", f'maxTotal="{step.now}"', f'maxTotal="{step.then}"', note)
        case "servlets" if "interaction" in step.then:
            note = "a <Resource> for each servlet, each with its own maxTotal"
            yield line("context.xml", "", f'<Resource name="jdbc/{step.callee}-SERVLET" .../>', note)
        case "skip":
            note = f"of the <Resource> for {step.callee}, in milliseconds"
            yield line("context.xml", "", f'maxTotal="{step.then}" maxWaitMillis="100"', note)
        case "kept" if not step.callee:
            yield line("server.xml", 'maxKeepAliveRequests="1"', 'maxKeepAliveRequests="100"', "of <Connector>")
        case "silence":
            then = step.then // MILLISECOND
            yield line("server.xml", "", f'connectionTimeout="{then}"', "of <Connector>, in milliseconds")
        case "log":
            yield line("server.xml", "", 'buffered="true"', "of the AccessLogValve; or remove the valve")
